"use strict";
// The reader of single texts. What comes from the data is only ever set as textContent, never parsed as HTML.
(() => {
  const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const GRADES = 30, CLEAR = 3; // a score of at least so many grades below zero has a minus
  const [FLIPS, STEPS, CLASSES, OUTPUTS] = [2, 3, 4, 5]; // of a ranking's row; before them scores and removed items
  const EARLY = 0.2, BEST = 0.1, WORST = 0.5; // shares of the items
  const data = JSON.parse(document.getElementById("reader-data").textContent);
  const byId = (id) => document.getElementById(`reader-${id}`);
  const regression = data.kind === "regression";
  let shown = []; // the indices of the texts in the list, in its order
  let current = -1; // the index of the text that is read

  // ---- elements

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function options(select, entries) {
    select.replaceChildren(...entries.map(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      return option;
    }));
  }

  // ---- what the data say

  const levelIndex = () => Number(byId("level").value);
  const level = () => data.levels[levelIndex()];
  const entryOf = (text) => text.l[levelIndex()];
  const chosen = () => [Number(byId("a").value), Number(byId("b").value)];
  const erasing = () => Number(document.querySelector("input[name=reader-from]:checked").value);
  const labelOf = (value) => {
    if (value === null) return "no label";
    if (regression) return String(value);
    if (Array.isArray(value)) return value.map((each) => data.labels[each]).join(", ") || "no label";
    return data.labels[value];
  };
  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}\u00a0%`;
  const output = (value) => (regression ? value.toPrecision(4) : `${(100 * value).toFixed(1)}\u00a0%`);
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  const unit = () => (level().unit === "tokens" ? "token" : level().unit === "sentences" ? "sentence" : "item");

  // The share of the items that a ranking removes until the decision flips; 1 where it never does.
  function share(entry, ranking) {
    const row = entry.r[ranking];
    return row[FLIPS] ? row[1].length / entry.n : 1;
  }

  // How much more attention removes than the smallest set known, or than the best ranking if that is less.
  function misleads(text) {
    const entry = entryOf(text), attention = level().rankings.findIndex((ranking) => ranking.role === "attention");
    if (!entry || attention < 0) return null;
    const least = Math.min(entry.m ? entry.m.length / entry.n : 1, ...entry.r.map((_, ranking) => share(entry, ranking)));
    return share(entry, attention) - least;
  }

  // The step that is shown, as an index into the stored steps.
  function state() {
    const text = data.texts[current], entry = entryOf(text), ranking = chosen()[erasing()];
    const row = entry.r[ranking], index = Number(byId("slider").value);
    return { text, entry, row, index, removed: row[STEPS][index], last: row[STEPS].length - 1 };
  }

  const outputsAt = (row, index) => row[OUTPUTS].slice(index * row[CLASSES].length, (index + 1) * row[CLASSES].length);

  // ---- the list

  const searchable = data.texts.map((text) =>
    text.t.map((token, index) => text.b[index] + token).join("").concat(text.b[text.t.length]).toLowerCase());
  const excerpts = data.texts.map((text) => {
    const special = new Set(text.s);
    let line = "";
    for (let index = 0; index < text.t.length && line.length < 160; index++) {
      line += text.b[index] + (special.has(index) ? " " : text.t[index]);
    }
    return line.trim();
  });

  function matches(text, index) {
    const entry = entryOf(text), wanted = byId("search").value.trim().toLowerCase();
    if (!entry) return false;
    if (wanted && String(text.n) !== wanted && !searchable[index].includes(wanted)) return false;
    const label = byId("class").value;
    if (label !== "" && ![text.p].flat().includes(Number(label))) return false;
    const right = byId("right").value;
    if (right !== "" && text.r !== (right === "1")) return false;
    const when = byId("flips").value, row = entry.r[chosen()[0]], removed = share(entry, chosen()[0]);
    if (when === "never" && row[FLIPS]) return false;
    if (when === "early" && !(row[FLIPS] && removed <= EARLY)) return false;
    if (when === "late" && !(row[FLIPS] && removed > EARLY)) return false;
    const worth = byId("worth").value, more = misleads(text);
    if (worth === "best" && !(more !== null && more <= BEST)) return false;
    if (worth === "worst" && !(more !== null && more >= WORST)) return false;
    return true;
  }

  function compare() {
    const [a] = chosen();
    const sure = (text) => {
      const outputs = outputsAt(entryOf(text).r[a], 0);
      return Math.max(...outputs);
    };
    return {
      row: (text) => text.n,
      misleads: (text) => -(misleads(text) ?? -1),
      flip: (text) => share(entryOf(text), a),
      "flip-last": (text) => -share(entryOf(text), a),
      long: (text) => -entryOf(text).n,
      unsure: sure,
    }[byId("sort").value];
  }

  function about(text) {
    const entry = entryOf(text), row = entry.r[chosen()[0]];
    const flips = row[FLIPS] ? `A flips at ${row[1].length}/${entry.n}` : "A never flips";
    return `row ${text.n} · ${labelOf(text.p)} · ${flips}`;
  }

  function fillList() {
    const key = compare();
    shown = data.texts.map((_, index) => index).filter((index) => matches(data.texts[index], index));
    const keys = new Map(shown.map((index) => [index, key(data.texts[index])]));
    shown.sort((left, right) => keys.get(left) - keys.get(right) || left - right);
    byId("list").replaceChildren(...shown.map((index) => {
      const text = data.texts[index], item = element("li");
      item.id = `reader-text-${index}`;
      item.setAttribute("role", "option");
      const mark = text.r === null ? ["", ""] : text.r ? ["✓", " is-right"] : ["✗", " is-wrong"];
      const sign = element("span", `reader-mark${mark[1]}`, mark[0]);
      if (text.r !== null) sign.setAttribute("aria-label", text.r ? "right" : "wrong");
      item.append(sign, element("span", "reader-line", excerpts[index]), element("span", "reader-about", about(text)));
      return item;
    }));
    byId("count").textContent = shown.length ? count(shown.length, "text") : "No text fits these filters.";
    if (!shown.includes(current) && shown.length) select(shown[0]);
    else markSelected();
  }

  function markSelected() {
    for (const item of byId("list").querySelectorAll("[aria-selected=true]")) item.removeAttribute("aria-selected");
    const item = byId(`text-${current}`);
    if (item) item.setAttribute("aria-selected", "true");
    byId("list").setAttribute("aria-activedescendant", item ? item.id : "");
    return item;
  }

  function select(index) {
    current = index;
    const item = markSelected();
    if (item) {
      const list = byId("list"), top = item.offsetTop - list.offsetTop;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight;
    }
    showText();
  }

  // ---- one text

  // The words of a text as elements, and for each item of the level the elements that it covers.
  function words(text, entry) {
    const special = new Set(text.s), pieces = [], tokens = [];
    text.t.forEach((token, index) => {
      const gap = index === text.q ? `${text.b[index].trimEnd()}\n\n` : text.b[index];
      if (gap) pieces.push(element("span", gap.trim() ? "reader-gap" : "", gap));
      const made = element("span", `reader-token${special.has(index) ? " reader-special" : ""}`, token);
      tokens.push(made);
      pieces.push(made);
    });
    const rest = text.b[text.t.length];
    if (rest) pieces.push(element("span", rest.trim() ? "reader-gap" : "", rest));
    if (entry.i === null) { // items of this model's attention that are no particular tokens
      const items = entry.r[0][0].split("").map((_, index) => element("span", "reader-token reader-special", `item ${index + 1}`));
      return { pieces: [...pieces, document.createTextNode("\n\n"), ...items], items: items.map((item) => [item]) };
    }
    const items = entry.i ? entry.i.map(([start, length]) => tokens.slice(start, start + length)) : tokens.map((token) => [token]);
    return { pieces, items };
  }

  function showPanel(panel, ranking) {
    const text = data.texts[current], entry = entryOf(text), [scores, removed] = entry.r[ranking];
    const made = words(text, entry), paragraph = panel.querySelector(".reader-words");
    const ranks = new Map(removed.map((item, rank) => [item, rank + 1])), smallest = new Set(entry.m ?? []);
    made.items.forEach((elements, item) => {
      const letter = scores[item], grade = letter === "-" ? 0 : LETTERS.indexOf(letter) - GRADES;
      const strength = letter === "-" ? "score undefined" : `${grade < 0 ? "−" : ""}${percent(Math.abs(grade) / GRADES)} of the largest score`;
      for (const word of elements) {
        word.style.setProperty("--s", Math.abs(grade) / GRADES);
        if (grade < 0) word.classList.add("reader-against");
        if (grade <= -CLEAR) word.classList.add("is-clear");
        if (smallest.has(item)) word.classList.add("reader-smallest");
        word.title = ranks.has(item) ? `${strength}; erased as number ${ranks.get(item)} of ${entry.n}` : strength;
        word.dataset.item = item;
      }
    });
    paragraph.replaceChildren(...made.pieces);
    const row = entry.r[ranking], flip = panel.querySelector(".reader-flip");
    flip.textContent = row[FLIPS]
      ? `Flips the decision with ${count(row[1].length, unit())} of ${entry.n} erased (${percent(row[1].length / entry.n)}).`
      : `Never flips the decision, with all of its ${count(entry.n, unit())} erased one after the other.`;
  }

  function showText() {
    if (current < 0) return;
    const text = data.texts[current], entry = entryOf(text);
    byId("heading").textContent = `Text of row ${text.n}`;
    const outputs = outputsAt(entry.r[0], 0), at = entry.r[0][CLASSES].indexOf(text.p);
    let line = regression ? `Predicted value ${output(outputs[0])}` : `Predicted ${labelOf(text.p)}`;
    if (!regression && at >= 0) line += ` (${output(outputs[at])})`;
    if (text.g !== null) line += text.r === null ? `; label ${labelOf(text.g)}` : text.r ? ", which is right ✓" : `, which is wrong ✗: the label is ${labelOf(text.g)}`;
    if (entry.m) line += `. The smallest set known that flips the decision has ${count(entry.m.length, unit())} of ${entry.n}`;
    else line += ". No set is known that flips the decision";
    line += ".";
    if (text.x) line += ` Of this text, ${count(text.x, "character")} at the end are not stored.`;
    byId("decision").textContent = line;
    const [a, b] = chosen();
    showPanel(document.querySelector("[data-panel='0']"), a);
    showPanel(document.querySelector("[data-panel='1']"), b);
    const against = [a, b].some((ranking) => /[0-9A-T]/.test(entry.r[ranking][0]));
    byId("key-against").hidden = !against;
    byId("key-smallest").hidden = !entry.m;
    byId("key-special").hidden = !text.s.length;
    byId("key-gap").hidden = !document.querySelector(".reader-words .reader-gap");
    begin();
  }

  // ---- erasing

  function begin() {
    if (current < 0) return;
    const slider = byId("slider");
    slider.value = 0;
    slider.max = state().last;
    showState();
  }

  function sentence({ text, entry, row, index, removed, last }) {
    const name = level().rankings[chosen()[erasing()]].name, all = `${entry.n} ${unit()}s`;
    if (index === 0) {
      const end = row[FLIPS] ? `the decision flips with ${row[1].length} of ${all} erased` : "the decision never flips";
      return `Nothing is erased yet. In the order of ${name}, ${end}.`;
    }
    const newest = removedWords(row, entry, row[STEPS][index - 1], removed);
    const line = `${removed} of ${all} erased in the order of ${name}, the last ${newest}.`;
    if (index < last) return `${line} The decision stands.`;
    if (!row[FLIPS]) return `${line} The decision never flipped.`;
    return `${line} The decision has flipped${regression ? "" : `: ${labelOf(text.p)} → ${labelOf(decided(text, row, index, last))}`}.`;
  }

  function removedWords(row, entry, from, to) {
    const text = data.texts[current], newest = row[1].slice(from, to);
    const listed = newest.slice(-3).map((item) => {
      if (entry.i === null) return `item ${item + 1}`;
      const [start, length] = entry.i ? entry.i[item] : [item, 1];
      const words = text.t.slice(start, start + Math.min(length, 4)).join(" ");
      return `“${length > 4 ? `${words} …` : words}”`;
    });
    return `${newest.length > 3 ? "… " : ""}${listed.join(", ")}`;
  }

  function showState() {
    if (current < 0) return;
    const now = state(), { text, entry, row, index, removed, last } = now;
    const gone = new Set(row[1].slice(0, removed));
    for (const [number, panel] of [...document.querySelectorAll(".reader-panel")].entries()) {
      panel.classList.toggle("is-erased", number === erasing());
      for (const word of panel.querySelectorAll("[data-item]")) {
        word.classList.toggle("reader-gone", gone.has(Number(word.dataset.item)));
      }
    }
    byId("less").disabled = index === 0;
    byId("more").disabled = index === last;
    byId("jump").disabled = index === last;
    byId("jump").textContent = row[FLIPS] ? "To the flip" : "To the end";
    const line = sentence(now);
    byId("state").textContent = line;
    byId("slider").setAttribute("aria-valuetext", `${removed} of ${entry.n} erased`);
    showBars(text, row, index, last);
    showTrace(entry, index);
  }

  // The classes that the outputs at a step decide for.
  function decided(text, row, index, last) {
    if (regression) return [];
    if (data.kind === "multilabel") return row[CLASSES].filter((_, number) => outputsAt(row, index)[number] > 0.5);
    if (index === 0 || !(row[FLIPS] && index === last)) return [text.p];
    const outputs = outputsAt(row, index), others = row[CLASSES].map((label, number) => [label === text.p ? -1 : outputs[number], label]);
    return [others.sort((left, right) => right[0] - left[0])[0][1]];
  }

  function showBars(text, row, index, last) {
    const now = outputsAt(row, index), before = outputsAt(row, 0), labels = decided(text, row, index, last);
    const values = [...Array(row[OUTPUTS].length).keys()].map((number) => row[OUTPUTS][number]);
    const low = regression ? Math.min(0, ...values) : 0, high = regression ? Math.max(0, ...values) : 1;
    const place = (value) => `${(100 * (value - low)) / (high - low || 1)}%`;
    byId("bars").replaceChildren(...row[CLASSES].map((label, number) => {
      const item = element("li", labels.includes(label) ? "is-decided" : "");
      const name = element("span", "reader-name", `${labels.includes(label) ? "▸ " : ""}${data.labels[label]}`);
      name.title = data.labels[label];
      const track = element("span", "reader-track"), fill = element("span", "reader-fill"), mark = element("span", "reader-before");
      fill.style.width = place(now[number]);
      mark.style.left = place(before[number]);
      mark.title = `before: ${output(before[number])}`;
      track.setAttribute("aria-hidden", "true");
      track.append(fill, mark);
      item.append(name, track, element("span", "reader-number", output(now[number])));
      return item;
    }));
  }

  // The output of the predicted class against the share that is erased, under both rankings.
  function showTrace(entry, index) {
    const svg = byId("trace"), text = data.texts[current];
    const draw = (name, attributes, content) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (content !== undefined) made.textContent = content;
      return made;
    };
    const lines = chosen().map((ranking) => {
      const row = entry.r[ranking], label = [text.p].flat()[0];
      const number = Math.max(0, regression ? 0 : row[CLASSES].indexOf(label));
      return row[STEPS].map((step, at) => [step / entry.n, outputsAt(row, at)[number]]);
    });
    const values = lines.flat().map(([, value]) => value);
    const low = regression ? Math.min(...values) : 0, high = regression ? Math.max(...values) : 1;
    const [left, right, top, bottom] = [62, 610, 12, 104];
    const x = (value) => left + (right - left) * value, y = (value) => bottom - ((bottom - top) * (value - low)) / (high - low || 1);
    const made = [
      draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      draw("line", { class: "axis", x1: left, x2: left, y1: top, y2: bottom }),
      draw("text", { x: left - 5, y: top + 4, "text-anchor": "end" }, regression ? high.toPrecision(2) : "100 %"),
      draw("text", { x: left - 5, y: bottom + 3, "text-anchor": "end" }, regression ? low.toPrecision(2) : "0 %"),
      draw("text", { x: left, y: bottom + 16 }, "0 % erased"),
      draw("text", { x: right, y: bottom + 16, "text-anchor": "end" }, "100 % erased"),
    ];
    lines.forEach((line, number) => {
      const name = number ? "b" : "a", [end, value] = line[line.length - 1];
      made.push(draw("polyline", { class: name, points: line.map(([at, out]) => `${x(at)},${y(out)}`).join(" ") }));
      made.push(draw("circle", { class: name, cx: x(end), cy: y(value), r: 4 }));
      made.push(draw("text", { x: x(end) + 7, y: y(value) + (number ? 10 : -3) }, number ? "B" : "A"));
    });
    const [at] = lines[erasing()][index];
    made.push(draw("line", { class: "now", x1: x(at), x2: x(at), y1: top, y2: bottom }));
    svg.replaceChildren(...made);
    const what = regression ? "Predicted value" : `Probability of ${labelOf([text.p].flat()[0] ?? 0)}`;
    byId("trace-caption").textContent = `${what} while A (solid) and B (dashed) erase; a dot is the flip, or the end.`;
    svg.setAttribute("aria-label", byId("trace-caption").textContent);
  }

  // ---- controls

  function fillRankings() {
    const list = level().rankings, entries = list.map((ranking, index) => [index, ranking.name]);
    for (const select of [byId("a"), byId("b")]) options(select, entries);
    const usable = data.texts.map(entryOf).filter(Boolean);
    const mean = (ranking) => usable.reduce((sum, entry) => sum + share(entry, ranking), 0) / (usable.length || 1);
    const attention = list.findIndex((ranking) => ranking.role === "attention");
    const others = list.map((ranking, index) => [index, ranking]).filter(([, ranking]) => ranking.role === "ordinary");
    const best = others.map(([index]) => [mean(index), index]).sort((left, right) => left[0] - right[0])[0];
    byId("a").value = Math.max(0, attention);
    byId("b").value = best ? best[1] : Math.min(1, list.length - 1);
  }

  function step(by) {
    const slider = byId("slider");
    slider.value = Number(slider.value) + by;
    showState();
  }

  function move(event) {
    const at = shown.indexOf(current), page = 8;
    const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1, PageDown: at + page, PageUp: at - page }[event.key];
    if (target === undefined || !shown.length) return;
    event.preventDefault();
    select(shown[Math.max(0, Math.min(shown.length - 1, target))]);
  }

  function start() {
    const words = { attention: "from the final attention", input: "at the input" };
    options(byId("level"), data.levels.map((entry, index) => [index, words[entry.name]]));
    byId("level").value = data.levels.length - 1;
    const classes = [...new Set(data.texts.flatMap((text) => text.p))].sort((left, right) => left - right);
    options(byId("class"), [["", "any class"], ...(regression ? [] : classes.map((label) => [label, data.labels[label]]))]);
    byId("class").parentElement.hidden = regression;
    byId("level").parentElement.hidden = data.levels.length < 2;
    byId("right-label").hidden = !data.facts.labelled;
    byId("list").classList.toggle("has-no-marks", !data.facts.labelled);
    const attention = data.levels.some((entry) => entry.rankings.some((ranking) => ranking.role === "attention"));
    byId("worth").parentElement.hidden = !attention;
    for (const option of [...byId("sort").options]) {
      if (option.value === "misleads" && !attention) option.remove();
      if (option.value === "unsure" && (regression || data.kind === "multilabel")) option.remove();
    }
    fillRankings();
    let waiting = 0;
    byId("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(fillList, 120); });
    for (const name of ["class", "right", "flips", "worth", "sort"]) byId(name).addEventListener("change", fillList);
    byId("level").addEventListener("change", () => { fillRankings(); fillList(); showText(); });
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("filters").addEventListener("reset", () => setTimeout(() => { byId("level").value = data.levels.length - 1; fillRankings(); fillList(); showText(); }));
    byId("a").addEventListener("change", () => { fillList(); showText(); });
    byId("b").addEventListener("change", showText);
    for (const radio of document.querySelectorAll("input[name=reader-from]")) radio.addEventListener("change", begin);
    byId("slider").addEventListener("input", showState);
    byId("less").addEventListener("click", () => step(-1));
    byId("more").addEventListener("click", () => step(1));
    byId("jump").addEventListener("click", () => step(Number(byId("slider").max)));
    byId("list").addEventListener("keydown", move);
    byId("list").addEventListener("click", (event) => {
      const item = event.target.closest("[role=option]");
      if (item) select(Number(item.id.slice("reader-text-".length)));
    });
    byId("app").hidden = false;
    fillList();
  }

  start();
})();
