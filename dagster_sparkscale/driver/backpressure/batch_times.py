"""What is believed of the time that batches take, from batch to batch. Pure.

`CostModel` says whether a batch is a surprise; `BatchTimes` decides what to make of one. A single
slow batch is often chance; two in a row are not, and change what is believed. Which part of the
change is overhead and which is cost, one batch can't say: a batch of another size does.
"""

import math

from .cost_model import CostModel

FIRST_SLOW, FIRST_FAST = 0.33, 1.0
"""How far a first surprising batch is followed until the next one says whether it was one of its
kind. A slow one often is; hardly any is fast by chance."""
CALM = 5
"""Batches without a surprise before a first one is followed at all. Where they come and go, batches
differ that much by chance."""
COMPARABLE = 0.5
"""Share of a slow batch's records from which another batch shows whether records are that dear."""
APART = 0.1
"""Share by which two slow batches must differ in size to show what is overhead and what cost."""
MOSTLY = 0.25
"""Share of a change that goes to the overhead from which that is to be confirmed."""
FAR_APART = 0.3
"""The share for a later batch, whose time may have changed meanwhile."""
SUSPECTED = 10
"""Smaller batches after which a slow one is taken for chance."""

Batch = tuple[float, float]
"""Records, and the seconds that they took."""


class BatchTimes:
    """Learns the time that batches take. For one thread."""

    def __init__(self) -> None:
        self.model: CostModel | None = None
        """What is believed; None: before the first batch."""
        self._undivided = 0.0
        """Records of a second slow batch that is taken for overhead, as long as none of another
        size has shown whether it was its records; 0: there is none."""
        self._guessed = True
        """Whether no batch of another size has confirmed yet what is overhead and what cost."""
        self._surprise = 0
        """The direction of the last surprising batch: 1 if it took longer than chance explains,
        else -1."""
        self._calm = CALM
        """Batches since that one which could have been surprises as well."""
        self._last: Batch = (0.0, 0.0)
        self._slow: Batch | None = None
        """A first slow batch, until another one shows whether it was chance."""
        self._rival: CostModel | None = None
        """The line through that batch and a smaller one that was not slow: what holds if records
        have become dearer."""
        self._smaller = 0
        """Batches since the slow one, if all were smaller and none was slow."""

    @property
    def suspects(self) -> bool:
        """Whether all batches since a slow one were too small to show whether it was chance."""
        return self._rival is not None

    @property
    def undivided(self) -> bool:
        """Whether it is to be confirmed that it is the overhead that has become slow."""
        return self._undivided > 0

    @property
    def surprised(self) -> bool:
        return self._calm == 0

    def learn(
        self, records: float, seconds: float, interval: float, tried_from: float | None = None
    ) -> CostModel:
        """Learn from a batch, and return what to go by until the next one, of which not all is
        believed yet.

        Args:
            records: above 0.
            seconds: above 0.
            interval: the batch interval in seconds.
            tried_from: records of the batches before, where this one was made larger on purpose.
        """
        before, batch = self.model, (records, seconds)
        if before is None:
            self.model = CostModel.of_first(records, seconds, interval)
            return self.model
        surprise = before.surprise(records, seconds)
        about = self._divided_from(records, surprise, tried_from)
        if about:
            self._undivided, self._guessed = 0.0, False
            self.model = before.turned(about, before.seconds(about), records, seconds)
            return self.model
        last, self._last = self._last, batch
        return self._dearer(before, batch) or self._judged(
            before, batch, last, surprise, tried_from is not None
        )

    def _divided_from(self, records: float, surprise: int, tried_from: float | None) -> float:
        """Records of batches before that this one, of another size, tells the overhead and the cost
        of; 0: it only adds to what is known of both. A larger one that was tried and took even
        longer than expected is like any slow one."""
        if self._undivided and abs(records / self._undivided - 1) > FAR_APART:
            return self._undivided
        divides = surprise < 0 or (self._guessed and not surprise)
        return tried_from if tried_from and divides else 0.0

    def _dearer(self, before: CostModel, batch: Batch) -> CostModel | None:
        """What is believed where a batch shows that records have become dearer: it is nearer to the
        line through the slow one than to what was believed."""
        rival = self._rival
        if rival is None or _distance(rival, batch) >= _distance(before, batch):
            return None
        self.model = rival.learned(*batch)
        self._slow = self._rival = None
        self._surprise, self._calm = 1, 0
        return self.model

    def _judged(
        self, before: CostModel, batch: Batch, last: Batch, surprise: int, tried: bool
    ) -> CostModel:
        alone = self._calm >= CALM
        # Two fast ones are no chance if there are others between them; of slow ones that may be.
        again = surprise * self._surprise > 0 and self._calm <= (0 if surprise > 0 else CALM)
        self.model = before.learned(*batch)
        if self._too_small(batch, surprise):
            return self.model
        self._calm += 1
        if surprise:
            self._surprise, self._calm = surprise, 0
        if again:
            self.model = self._leapt(before, batch, last, slow=surprise > 0)
            return self.model
        if surprise and not alone:
            self.model = self.model.noisier()
        if not surprise or not alone or tried:
            return self.model
        if surprise > 0:
            self._slow, self._smaller = batch, 0
        return before.leapt(*batch, FIRST_SLOW if surprise > 0 else FIRST_FAST)

    def _too_small(self, batch: Batch, surprise: int) -> bool:
        """Whether a batch is too small to show whether the slow one before was chance."""
        slow, model = self._slow, self.model
        if slow and model and not surprise and batch[0] < COMPARABLE * slow[0]:
            self._smaller += 1
            if self._smaller <= SUSPECTED:
                self._rival = model.turned(batch[0], model.seconds(batch[0]), *slow)
                return True
        self._slow = self._rival = None
        return False

    def _leapt(self, before: CostModel, batch: Batch, last: Batch, slow: bool) -> CostModel:
        """After a second surprise of one kind. `CostModel.leapt` gives most of it to what was the
        larger part before: wrong, where a batch is mostly overhead and its records have become
        dearer. Of two slow ones that differ in size, the line through both is right."""
        (records, seconds), model = batch, before.leapt(*batch)
        one_size = abs(records / last[0] - 1) <= APART
        if slow and not one_size:
            doubt = abs(seconds - before.seconds(records))
            if not model.surprise(*last):  # it explains both, so that it is wrong only by chance
                doubt *= before.of_overhead(max(records, last[0]))
            model = model.turned(records, doubt, *last)
        # Of the first slow one only a part may have been as slow as those that follow.
        self._undivided = records if slow and model.of_overhead(records) > MOSTLY else 0.0
        self._guessed = slow and one_size
        return model


def _distance(model: CostModel, batch: Batch) -> float:
    return abs(math.log(batch[1] / model.seconds(batch[0])))
