"""The results as Markdown."""

from typing import Any, Dict, List


def _number(value: Any, digits: int = 1) -> str:
    """``12.3`` or ``12.3 (0.4)`` from a mean and a standard deviation."""
    text = f"{value['mean']:.{digits}f}"
    if value["deviation"] is not None:
        text += f" ({value['deviation']:.{digits}f})"
    return text


def markdown(results: Dict[str, Any]) -> str:
    """One page: perplexities, accuracies, samples, templates."""
    about = results["about"]
    lines: List[str] = [
        f"# Language models on {about['corpus']}",
        "",
        f"Size `{about['size']}`: {about['train']} training sentences, BPE of {about['merges']} "
        f"merges, updates of {about['batch']} tokens: {about['updates']} of the masked models, "
        f"{about['autoregressive_updates']} of the autoregressive one; width {about['width']}, "
        f"{about['layers']} layer(s), seeds {', '.join(map(str, about['seeds']))}. "
        f"{about['texts']} test sentences ({about['tokens']} tokens, {about['words']} words) are "
        f"scored, {about['orders']} random orders each; the length is given and the end of a text "
        "not counted. In brackets: standard deviation over seeds.",
        "",
        "| perplexity per token | left to right | random order | pseudo |",
        "|---|---|---|---|",
    ]
    for system, values in results["perplexity"].items():
        cells = [
            _number(values[m]["token"]) if m in values else "-"
            for m in ("left-to-right", "random", "pseudo")
        ]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    lines += ["", "| perplexity per word | left to right | random order |", "|---|---|---|"]
    for system, values in results["perplexity"].items():
        cells = [
            _number(values[m]["word"]) if m in values else "-" for m in ("left-to-right", "random")
        ]
        lines.append(f"| {system} | {' | '.join(cells)} |")
    tuning = results.get("classification")
    if tuning:
        first, second = tuning["about"]["labels"]
        counts = tuning["about"]["sentences"]
        lines += [
            "",
            f"Telling *{first}* from *{second}* ({counts['train']} sentences without names, "
            f"{counts['test']} for test):",
            "",
            "| pretrained as | learning rate (chosen on valid) | accuracy, valid | test |",
            "|---|---|---|---|",
        ]
        for system, values in tuning["accuracy"].items():
            cells = [values["rate"], _number(values["valid"]), _number(values["test"])]
            lines.append(f"| {system} | {' | '.join(map(str, cells))} |")
    for system, values in results["generations"].items():
        lines += ["", f"## {system}, seed {about['seeds'][0]}"]
        for order, samples in values["samples"].items():
            lines += ["", f"Sampled {order} (temperature 0.8, top 40):", ""]
            lines += [f"- {text}" for text in samples]
        lines += ["", "Templates, surest first:", ""]
        lines += [f"- `{t}`: {text}" for t, text in values["templates"].items()]
    return "\n".join(lines) + "\n"
