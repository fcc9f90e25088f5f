"""A slow twin of the classifier: one text, in loops, from the papers' equations."""

import math

import torch


def encode(encoder, config, items):
    """Items [N, E] -> [N, D], and the summary [D]."""
    if config.encoder in ("gru", "lstm"):
        if len(items) == 0:
            return items.new_zeros(0, 2 * config.hidden_size), items.new_zeros(2 * config.hidden_size)
        step = _gru_step if config.encoder == "gru" else _lstm_step
        sides = []
        for suffix, order in (("", range(len(items))), ("_reverse", reversed(range(len(items))))):
            weights = [
                getattr(encoder.rnn, name + "_l0" + suffix) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            state = (items.new_zeros(config.hidden_size), items.new_zeros(config.hidden_size))
            outputs = {}
            for i in order:
                state = step(items[i], *state, *weights)
                outputs[i] = state[0]
            sides.append((outputs, state[0]))
        encoded = [torch.cat([sides[0][0][i], sides[1][0][i]]) for i in range(len(items))]
        return torch.stack(encoded), torch.cat([sides[0][1], sides[1][1]])
    if config.encoder == "conv":
        encoded = [torch.cat([_convolve(layer, items, i) for layer in encoder.convolutions]) for i in range(len(items))]
        encoded = [encoder.activation(row) for row in encoded]
    elif config.encoder == "mlp":
        encoded = [encoder.activation(encoder.linear.weight @ item + encoder.linear.bias) for item in items]
    else:
        encoded = list(items)
    if not encoded:
        return items.new_zeros(0, encoder.size), items.new_zeros(encoder.size)
    encoded = torch.stack(encoded)
    return encoded, encoded.max(0).values if config.encoder == "conv" else encoded.mean(0)


def _gru_step(x, h, _, w, u, b, c):
    ir, iz, new = (w @ x + b).chunk(3)
    hr, hz, hn = (u @ h + c).chunk(3)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    return (1 - z) * torch.tanh(new + r * hn) + z * h, None


def _lstm_step(x, h, cell, w, u, b, c):
    i, f, g, o = (w @ x + b + u @ h + c).chunk(4)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _convolve(layer, items, i):
    width = layer.kernel_size[0]
    total = layer.bias
    for k in range(width):
        j = i + k - (width - 1) // 2
        if 0 <= j < len(items):
            total = total + layer.weight[:, :, k] @ items[j]
    return total


def score(attention, config, items, query):
    """Wen et al., equations 1 to 5, and Serrano & Smith's, which is equation 2 with a bias."""
    scores = []
    for item in items:
        if config.attention == "dot":
            scale = config.dot_scale if config.dot_scale is not None else query is not None
            vector = query if query is not None else attention.context.weight[0]
            scores.append((item @ vector) / (math.sqrt(len(item)) if scale else 1))
            continue
        hidden = attention.project.weight @ item + attention.project.bias
        if query is not None:
            hidden = hidden + attention.query.weight @ query
        if config.attention == "additive":
            scores.append(attention.context.weight[0] @ torch.tanh(hidden))
            continue
        for layer in attention.layers:
            hidden = layer.weight @ hidden.clamp(min=0) + layer.bias
        scores.append(attention.context.weight[0] @ hidden.clamp(min=0))
    return scores


def normalise(scores, config):
    values = [score.item() for score in scores]
    if config.normaliser == "sparsemax":
        return simplex_projection(values)
    temperature = config.temperature if config.normaliser == "gumbel" else 1.0
    exponentials = [math.exp((value - max(values)) / temperature) for value in values]
    return [value / sum(exponentials) for value in exponentials]


def simplex_projection(values):
    """Martins & Astudillo 2016, algorithm 1."""
    ordered = sorted(values, reverse=True)
    size = max(k for k in range(1, len(values) + 1) if 1 + k * ordered[k - 1] > sum(ordered[:k]))
    threshold = (sum(ordered[:size]) - 1) / size
    return [max(value - threshold, 0.0) for value in values]


def average(weights, items, size, like):
    total = like.new_zeros(size)
    for weight, item in zip(weights, items, strict=True):
        total = total + weight * item
    return total


def classify(model, ids, query_ids=None):
    """Ids of one text without padding (and of its query) -> logits [C], weights, sentences as lists of positions."""
    config, table = model.config, model.embeddings.weight
    runs, run = [], []
    for position, token in enumerate(ids):
        if config.by_sentences and token in (config.sentence_token_id, config.sep_token_id):
            runs.append(run)
            run = []
        elif token not in (config.sentence_token_id, config.sep_token_id):
            run.append(position)
    runs = [run for run in [*runs, run] if run]
    query = None
    if query_ids is not None:
        _, query = encode(model.query_encoder, config, table[torch.tensor(query_ids, dtype=torch.long)])
    if config.by_sentences:
        vectors = []
        for run in runs:
            items, _ = encode(model.word_encoder, config, table[[ids[position] for position in run]])
            weights = normalise(score(model.word_attention, config, items, None), config)
            vectors.append(average(weights, items, model.word_encoder.size, table))
        items = torch.stack(vectors) if vectors else table.new_zeros(0, model.word_encoder.size)
    else:
        items = table[torch.tensor([ids[position] for run in runs for position in run], dtype=torch.long)]
    values, _ = encode(model.encoder, config, items)
    weights = normalise(score(model.attention, config, values, query), config) if len(values) else []
    logits = model.classifier.weight @ average(weights, values, model.encoder.size, table) + model.classifier.bias
    if query is not None:
        logits = logits + model.query_classifier.weight @ query
    return logits, weights, runs
