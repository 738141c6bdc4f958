"""Reads Markdown as Dagster's pages do."""

from markdown_it import MarkdownIt

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def written(markdown):
    """What a reader of `markdown` sees in its paragraphs and cells, and the kinds of its parts."""
    texts, kinds = [], set()
    for token in READER.parse(markdown):
        if token.type == "inline":
            # An empty picture is a place where a line may be broken.
            seen = [child for child in token.children if child.attrs.get("src") != ""]
            texts.append("".join(child.content for child in seen))
            kinds |= {child.type for child in seen}
        else:
            kinds.add(token.type)
    return texts, kinds
