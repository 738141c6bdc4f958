"""What a policy returns. Every decision, acted on or held, says why in words a person reads."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hold:
    """Change nothing."""

    reason: str
    pinned: bool = False
    """The policy would have scaled up, but the stream is at its maximum already."""

    def __str__(self) -> str:
        return "hold"


@dataclass(frozen=True, slots=True)
class ScaleTo:
    """Set the absolute number of executors."""

    target: int
    reason: str

    def __str__(self) -> str:
        return f"scale to {self.target}"


Decision = Hold | ScaleTo
