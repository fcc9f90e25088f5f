"""The table of methods in the documentation, as the registry has it."""

from attnfaith.attribution.method import methods


def methods_table() -> str:
    """The table of docs/explaining.md, in Markdown."""
    lines = [
        "| level | method | called | role | cost of a text | run | needs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (level, name), method in sorted(methods.items()):
        usual = "only where named" if method.on_request else "by default" if method.by_default else 'by `"all"`'
        cells = [level, f"`{name}`", method.display_name, method.role, method.cost, usual, method.needs]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines)
