"""Flame graphs: stacks that perf has sampled, as an SVG without a script; and the share of each part of the program."""

import re
from collections import Counter
from html import escape

WIDTH, ROW, TOP = 1200, 17, 40
# Of the whole: narrower frames are left out.
NARROWEST = 0.003
CHARACTER = 6.6


def stacks(lines):
    """Counts stacks, outermost frame first, of what `perf script` prints."""
    counts, frames = Counter(), []
    for line in lines:
        line = line.rstrip("\n")
        if not line:
            if frames:
                counts[tuple(reversed(frames))] += 1
            frames = []
        elif line[0] in " \t":
            frames.append(name(line.split(None, 1)[1]))
    if frames:
        counts[tuple(reversed(frames))] += 1
    return counts


def name(frame):
    """The function alone: no address, object, hash or type parameters."""
    text = re.sub(r"\+0x[0-9a-f]+ \(.*\)$| \(.*\)$", "", frame)
    text = re.sub(r"::h[0-9a-f]{16}$", "", text)
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text.strip(":") or frame


def svg(counts, title):
    """Boxes as wide as the time that was spent below them; a tooltip has the whole name and the share."""
    total = sum(counts.values()) or 1
    tree = [0, {}]
    for stack, count in counts.items():
        at = tree
        at[0] += count
        for frame in stack:
            at = at[1].setdefault(frame, [0, {}])
            at[0] += count
    boxes, depth = [], 0

    def place(children, left, level):
        nonlocal depth
        for frame, (count, below) in sorted(children.items()):
            if count >= total * NARROWEST:
                depth = max(depth, level)
                boxes.append((frame, left, level, count))
                place(below, left, level + 1)
            left += count

    place(tree[1], 0, 0)
    height = TOP + (depth + 1) * ROW + 10
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/><text x="8" y="20" font-size="14">{escape(title)}</text>',
    ]
    for frame, left, level, count in boxes:
        x, width = left / total * WIDTH, count / total * WIDTH
        y = height - 10 - (level + 1) * ROW
        text = frame[: int((width - 4) / CHARACTER)] if width > 4 * CHARACTER else ""
        out.append(
            f'<g><title>{escape(frame)}: {100 * count / total:.1f} %</title><rect x="{x:.1f}" y="{y}" width="{max(width - 0.5, 0.5):.1f}" '
            f'height="{ROW - 1}" fill="{colour(frame)}"/><text x="{x + 2:.1f}" y="{y + 12}">{escape(text)}</text></g>'
        )
    return "\n".join([*out, "</svg>", ""])


def colour(frame):
    """By the crate, so that one part has one colour; the kernel is grey."""
    if "::" not in frame:
        return "#c8c8c8"
    crate = frame.lstrip("<&").split("::")[0]
    return f"hsl({sum(map(ord, crate)) * 37 % 360},60%,75%)"


def shares(counts, groups):
    """The share of the samples whose innermost frame that is in a group is of it; the groups are (name, expression)."""
    total = sum(counts.values()) or 1
    compiled = [(group, re.compile(expression)) for group, expression in groups]
    sums = Counter()
    for stack, count in counts.items():
        sums[next((group for frame in reversed(stack) for group, expression in compiled if expression.search(frame)), "other")] += count
    return [(group, count / total) for group, count in sums.most_common()]


def leaves(counts, number):
    """The functions in which most samples were taken, with their share."""
    total = sum(counts.values()) or 1
    own = Counter()
    for stack, count in counts.items():
        own[stack[-1]] += count
    return [(frame, count / total) for frame, count in own.most_common(number)]
