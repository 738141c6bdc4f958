"""A name that drivers which run on know: theirs was `dstream/records.py` before it moved.

Tasks are pickled by the names of their functions, and the workers of a running driver find this
package as it is now. It may go with the release after next.
"""

from .dstream.records import KinesisRecord, about, read_ranges

__all__ = ["KinesisRecord", "about", "read_ranges"]
