"""Open a page in headless Chromium, drive it with a script, and read what it shows."""

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_DRIVER = """
const complaints = [];
const said = (event) => event.message || event.reason || event.violatedDirective;
const note = (kind) => (event) => complaints.push(`${kind}: ${said(event)}`);
addEventListener("error", note("error"), true);
addEventListener("unhandledrejection", note("rejected"));
document.addEventListener("securitypolicyviolation", note("policy"));
for (const name of ["error", "warn"]) console[name] = (...words) => complaints.push(`console: ${words.join(" ")}`);
window.alert = () => complaints.push("alert");
addEventListener("load", () => {
  let result = null;
  try { result = drive(); } catch (error) { complaints.push(`driver: ${error.stack}`); }
  const shown = document.createElement("pre");
  shown.id = "driven";
  shown.textContent = encodeURIComponent(JSON.stringify({ result, complaints }));
  document.body.append(shown);
});
"""


def page_of(section, driver=""):
    """A page with a section and a strict content policy: no network, and no script or style but those that stand in it.

    The variables of colours are not defined here, so the section's own defaults are used.
    """
    script = f"<script>function drive() {{ {driver} }}\n{_DRIVER}</script>" if driver else ""
    body = f"{script}{section}"
    hashes = {
        kind: " ".join(f"'sha256-{_digest(content)}'" for content in re.findall(f"<{kind}>(.*?)</{kind}>", body, re.S))
        for kind in ("script", "style")
    }
    policy = f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}"
    head = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}"><title>page</title>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>'


def _digest(content):
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def driven(section, driver, folder):
    """What a driver returns, the body of a JavaScript function; errors, warnings and refused content fail the test."""
    if not CHROMIUM:
        pytest.skip("there is no Chromium here; on Debian: apt-get install chromium")
    folder.mkdir(exist_ok=True)
    page = folder / "page.html"
    page.write_text(page_of(section, driver), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    command = [CHROMIUM, *FLAGS, profile, "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
    result = subprocess.run(command, capture_output=True, timeout=120, check=True, encoding="utf-8")
    content = re.search(r'<pre id="driven">(.*?)</pre>', result.stdout, re.S)
    assert content, result.stdout[-2000:] + result.stderr[-2000:]
    told = json.loads(unquote(html.unescape(content[1])))
    assert told["complaints"] == []
    return told["result"]
