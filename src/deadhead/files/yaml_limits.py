"""What YAML may not have: a few bytes could be nested or repeated until reading them never ends."""

DEEPEST = 20  # mappings and lists in each other


def refused_in(text: str) -> tuple[int, str, str] | None:
    """The line of the first repetition or too deep part of a text, what it is, and a hint.

    Raises yaml.YAMLError. Reads no further than it must.
    """
    import yaml

    depth = 0
    for event in yaml.parse(text, yaml.BaseLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return line, f"*{event.anchor} repeats an anchor", "write it out"
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            return line, "this is nested too deeply", f"expected at most {DEEPEST} levels"
    return None
