import itertools
import sys
from random import Random

from tests.recordings import Run, document

from headway.recording.writer import RecordingWriter

run = Run(Random(int(sys.argv[2])))
limit = int(sys.argv[3]) or None
writer = RecordingWriter(sys.argv[1], document(run.start), rows=200, most_bytes=limit)
print("begun", flush=True)
for number in itertools.count():
    writer.add(next(run.batches(1, 60)))
    if number % 10 == 0:
        print(run.now, flush=True)
