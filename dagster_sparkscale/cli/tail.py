"""What has come since a log was last read, when only its end can be read. Pure."""


def fresh(before: list[str], now: list[str]) -> list[str]:
    """The lines of `now`, a log's last ones, that have come since `before` was read.

    A last line that was read while it was written comes again as a whole.
    """
    for left in range(len(before)):
        kept = len(before) - left
        if now[:kept] == before[left:]:
            return now[kept:]
        last = kept - 1
        if now[:last] == before[left:-1] and now[last:] and now[last].startswith(before[-1]):
            return now[last:]
    return now
