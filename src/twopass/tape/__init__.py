"""What pass 1 wrote: tapes in memory and in files.

- :class:`Tape` and :class:`Episode`: immutable columns, all that playback needs.
- :class:`Recording`: turns resets and steps into records, a block at a time.
- :class:`TapeWriter` and :func:`read_tape`: records to and from an MCAP file.

Nothing here knows an environment. Reading a tape never runs code from it and imports no
name found in it.
"""

from twopass.tape.episode import Actions, Episode, Tape, Timing
from twopass.tape.reader import read_tape
from twopass.tape.recording import MemorySink, Recording, Sink
from twopass.tape.records import FORMAT, Construction, Header
from twopass.tape.writer import TapeWriter

__all__ = [
    "FORMAT",
    "Actions",
    "Construction",
    "Episode",
    "Header",
    "MemorySink",
    "Recording",
    "Sink",
    "Tape",
    "TapeWriter",
    "Timing",
    "read_tape",
]
