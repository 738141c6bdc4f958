"""What drivers need, and whether it is as it should be: the lines of `sparkscale doctor`. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """A requirement of drivers, and whether it is met."""

    subject: str
    text: str
    cure: str | None = None
    """What to do about it; None: all is well."""
    urgent: bool = True
    """Whether something does not work without the cure; False: it could be better."""

    @property
    def wrong(self) -> bool:
        return self.cure is not None and self.urgent
