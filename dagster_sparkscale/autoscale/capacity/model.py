"""How long a batch takes, by its records and the executors; learned minute by minute. Pure.

    p = a + g * (b1 * r + b2 * r * w)

    p   processing time of a batch, in batch intervals
    r   records of the batch
    w   the share of its tasks' work that lies on the longest path: 1 / slots where work is fluid;
        task waves / tasks where tasks are as they are
    a   what a batch costs whatever it has
    b1  what a record costs that no executor shares: the driver's part, a sink that does not scale
    b2  what a record costs that executors share
    g   the work of a record now, compared with when a, b1 and b2 were learned

a, b1 and b2 are the least squares of relative errors, of which the old are forgotten; with little
to go by they are drawn to a prior, as in ridge regression (Hoerl and Kennard, 1970). g follows
faster, and jumps where it must: not where records had little of the time or have become many or
few at once, which shows what a is. Which of the two w predicts better is the stream's own to say.
"""

from math import exp, log, sqrt
from typing import NamedTuple, Self

PRIOR_OVERHEAD = 0.08
"""a before anything is known, in batch intervals."""
_SURE_OF_A, _SURE_OF_B1, _SURE_OF_B2 = 4.0, 1.0, 0.05
"""Minutes that the prior of each counts for, about: a as above, no b1, and b2 the rest."""
_HALF_LIFE = 25.0
"""Minutes after which what a minute says of a, b1 and b2 counts half."""
_WORK_HALF_LIFE = 5.0
"""Minutes, of what it says of g."""
_ERROR_HALF_LIFE = 20.0
"""Minutes, of what it says of how well the model predicts."""
_PRIOR_ERROR = 0.05
"""Relative error of a minute before any is known."""
_LEAST_ERROR = 0.01
"""Relative error of a minute below which no model gets: what is stored has three digits."""
_JUMP, _JUMP_TWICE = 4.5, 3.0
"""Errors, in their usual size, with which one minute, or two running, say that g is another."""

_OTHER_W = 0.1
"""Logarithm by which w has changed from which on a surprise is about it."""
_OTHER_LOAD = 0.7
"""Logarithm by which the records have: where they become many or few, what a batch costs without
any shows."""
_FEW = 0.5
"""Share of the predicted time that records have, below which a surprise is not about them."""
_LEFT = 0.2
"""What is left of the past, then."""

_SINGULAR = 1e-12
"""Share of the product of its diagonal below which a determinant is not told from 0."""
_KEEP = 0.5 ** (1 / _HALF_LIFE)
_WORK_GAIN = 1 - 0.5 ** (1 / _WORK_HALF_LIFE)
_ERROR_GAIN = 1 - 0.5 ** (1 / _ERROR_HALF_LIFE)


class Cost(NamedTuple):
    """What a batch costs, g within."""

    overhead: float
    """Batch intervals, whatever it has."""
    alone: float
    """Batch intervals a record, that no executor shares."""
    shared: float
    """Batch intervals a record, times w."""

    def time(self, records: float, w: float) -> float:
        """Batch intervals that a batch takes."""
        return self.overhead + records * (self.alone + self.shared * w)

    def records(self, w: float, time: float = 1.0) -> float:
        """Records of a batch that takes so many batch intervals; 0 where none does."""
        room = time - self.overhead
        each = self.alone + self.shared * w
        return room / each if room > 0 and each > 0 else 0.0


_PRIOR_COST = Cost(PRIOR_OVERHEAD, 0.0, 1.0)


class Model(NamedTuple):
    """One w, and what was learned with it. Times are in batch intervals, records in those of the
    first minute, and w in that of the first minute."""

    minutes: int = 0
    records: float = 1.0
    w: float = 1.0
    # The information that the minutes and the prior have of a, b1, b2: six of a symmetric matrix.
    aa: float = 0.0
    ab: float = 0.0
    ac: float = 0.0
    bb: float = 0.0
    bc: float = 0.0
    cc: float = 0.0
    # The same, of the products with p.
    a: float = 0.0
    b: float = 0.0
    c: float = 0.0
    prior: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    """What the prior adds to aa, bb, cc; and the mean that it has of b2."""
    work: float = 1.0
    """g"""
    error: float = _PRIOR_ERROR**2
    """Mean of squared relative errors of predictions."""
    last_w: float = 1.0
    """w of the last minute."""
    last_x: float = 1.0
    """Records of the last minute."""
    surprise: int = 0
    """1 or -1 where the last minute lay beyond `_JUMP_TWICE`, with the sign of its error."""
    cost: Cost = _PRIOR_COST
    """The result of all that is known; records and w are real ones."""

    @classmethod
    def begun(cls, time: float, records: float, w: float) -> Self:
        """What the first minute and the prior say.

        Args:
            time: mean processing time of its batches, batch intervals; above 0.
            records: of a batch on average; above 0.
        """
        per = max(time - PRIOR_OVERHEAD, 0.5 * time)
        prior = (_SURE_OF_A, _SURE_OF_B1 / per**2, _SURE_OF_B2 / per**2, per)
        overhead = PRIOR_OVERHEAD * prior[0]
        empty = cls(
            records=records,
            w=w,
            last_w=w,
            aa=prior[0],
            bb=prior[1],
            cc=prior[2],
            a=overhead,
            c=per * prior[2],
            prior=prior,
        )
        return empty._with(time, 1.0, 1.0, 1.0, empty.error, w, 1.0)

    def after(self, time: float, records: float, w: float) -> Self:
        """What is known with one minute more; arguments as of `begun`."""
        x, u = records / self.records, records * w / (self.records * self.w)
        predicted = self.cost.time(records, w)
        off = log(time / predicted)
        usual = sqrt(max(self.error, _LEAST_ERROR**2))
        far = abs(off) / usual
        sign = 1 if off > 0 else -1
        share = 1 - self.cost.overhead / predicted
        if far > _JUMP_TWICE and abs(log(w / self.last_w)) > _OTHER_W:
            # It is the executors that bring something else than was thought, and not the records.
            return self._forgotten()._with(time, x, u, self.work, self.error, w, x)
        few = share < _FEW
        again = self.surprise == sign
        other_load = abs(log(x / self.last_x)) > _OTHER_LOAD
        if far > _JUMP_TWICE and (few or (other_load and not again)):
            # What a batch costs without records is something else than was thought. Where they had
            # most of the time and it is so once more, it is they: the load may change each minute.
            surprise = self.surprise if few else sign
            return self._with(time, x, u, self.work, self.error, w, x, surprise)
        if far > _JUMP or (far > _JUMP_TWICE and again):
            room = time - self.cost.overhead
            work = self.work
            if room > 0:
                work *= max(0.05, min(20.0, room / (predicted - self.cost.overhead)))
            return self._replace(work=work, last_x=x, surprise=0, cost=self._cost(work))
        work = self.work * exp(_WORK_GAIN * off)
        surprise = sign if far > _JUMP_TWICE else self.surprise if few else 0
        # A first error or two are the prior's, not the noise's.
        error = self.error + _ERROR_GAIN * (min(off, 4 * usual) ** 2 - self.error)
        return self._with(time, x, u, work, error, w, x, surprise)

    def _forgotten(self) -> Self:
        """With little left of what the minutes so far said."""
        k = _LEFT
        aa, bb, cc, per = self.prior
        return self._replace(
            aa=k * self.aa + (1 - k) * aa,
            ab=k * self.ab,
            ac=k * self.ac,
            bb=k * self.bb + (1 - k) * bb,
            bc=k * self.bc,
            cc=k * self.cc + (1 - k) * cc,
            a=k * self.a + (1 - k) * aa * PRIOR_OVERHEAD,
            b=k * self.b,
            c=k * self.c + (1 - k) * cc * per,
        )

    def _with(
        self,
        time: float,
        x: float,
        u: float,
        g: float,
        error: float,
        last_w: float,
        last_x: float,
        surprise: int = 0,
    ) -> Self:
        """With one minute more in the information, and fields that are other ones as well."""
        weight = 1 / (time * time)
        x, u, keep, lose = x * g, u * g, _KEEP, 1 - _KEEP
        aa, bb, cc, per = self.prior
        wx, wu = weight * x, weight * u
        information = (
            keep * self.aa + lose * aa + weight,
            keep * self.ab + wx,
            keep * self.ac + wu,
            keep * self.bb + lose * bb + wx * x,
            keep * self.bc + wx * u,
            keep * self.cc + lose * cc + wu * u,
            keep * self.a + lose * aa * PRIOR_OVERHEAD + weight * time,
            keep * self.b + wx * time,
            keep * self.c + lose * cc * per + wu * time,
        )
        return self.__class__(
            *(self.minutes + 1, self.records, self.w),
            *information,
            prior=self.prior,
            work=g,
            error=error,
            last_w=last_w,
            last_x=last_x,
            surprise=surprise,
            cost=self._of(information, g),
        )

    def _cost(self, g: float) -> Cost:
        of = (self.aa, self.ab, self.ac, self.bb, self.bc, self.cc, self.a, self.b, self.c)
        return self._of(of, g)

    def _of(self, information: tuple[float, ...], g: float) -> Cost:
        a, b, c = _solved(*information)
        return Cost(a, g * b / self.records, g * c / (self.records * self.w))


def _solved(
    aa: float,
    ab: float,
    ac: float,
    bb: float,
    bc: float,
    cc: float,
    p: float,
    q: float,
    r: float,
) -> tuple[float, float, float]:
    """Solve for a, b1 and b2 of least squares, none below 0."""
    # Cramer's rule. The prior keeps the determinants above 0, but not among floats: where batches
    # had 1000 times the records of the first minute's, it is less than the last of their digits.
    m1, m2, m3 = bb * cc - bc * bc, ab * cc - bc * ac, ab * bc - bb * ac
    whole = aa * m1 - ab * m2 + ac * m3
    a = b = c = -1.0
    if whole > _SINGULAR * aa * bb * cc:
        a = (p * m1 - q * m2 + r * m3) / whole
        b = (aa * (q * cc - bc * r) - ab * (p * cc - ac * r) + ac * (p * bc - q * ac)) / whole
        c = (aa * (bb * r - q * bc) - ab * (ab * r - q * ac) + p * m3) / whole
    if b < 0:
        # As the prior has it.
        b, whole = 0.0, aa * cc - ac * ac
        if whole > _SINGULAR * aa * cc:
            a, c = (p * cc - ac * r) / whole, (aa * r - ac * p) / whole
    if a < 0:
        a, b, c = 0.0, b, max(0.0, (r - b * bc) / cc)
    if c < 0:
        c = 0.0
        a, b = max(0.0, (p - ab * b) / aa), max(0.0, q / bb)
    return a, b, c
