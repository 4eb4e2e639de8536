"""JSON documents: saved measurements, what a recording is of, baselines of tests, and plans that can be taken back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from tests.fuzz.mutation import mutated_text, number
from tests.fuzz.texts import TextsTarget
from tests.linux.test_journal import kernel, planned
from tests.recordings import document

from headway.linux.placement.documents import change_of, document_of
from headway.model import Behind, Cause, Cell, Ledger, Processor, Quality, Thread, Window
from headway.recording.document import parse
from headway.testing.baseline import FIGURES, Baseline, BaselineEntry, MeasuredMachine
from headway.testing.levels import FigureLevel
from headway.views.json import dumps, to_document
from headway.views.saved import ledgers_of

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 1e308, -0.0, "", "x", "ns", "cycles", "exact", "user", "\ud800", "a\nb",
    "x" * 300, [], {}, [[]], [{}], {"": 0}, {"user": 1},
)  # fmt: skip


class JsonTarget(TextsTarget):
    """Measurements, recordings, baselines, and plans."""

    name = "json"
    file_name = "baseline.json"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return a document of each kind, and one of a program that ends."""
        texts = [dumps(to_document(_ledger(0, 1000))), document(1_000_000).text(), _baseline()]
        machine = kernel("everything")
        assert machine.resctrl is not None
        with patch("secrets.token_hex", return_value="3242fb"):
            plan = json.dumps([document_of(change) for change in planned(machine, "everything").changes])
        plan = plan.replace(machine.resctrl.root, "/sys/fs/resctrl")
        two = "\n".join(dumps(to_document(_ledger(at, at + 1000))) for at in (0, 1000))
        return [bytes([kind]) + text.encode() for kind, text in (*enumerate((*texts, plan)), (0, two))]

    @cached_property
    def _trees(self) -> list[Any]:
        return [json.loads(seed[1:]) for seed in self.seeds[:-1]]

    def changed(self, random: Random, text: bytes) -> bytes:
        """Change values of a document; of two documents, the text."""
        try:
            tree = json.loads(text)
        except ValueError:
            return mutated_text(random, text, self.seeds)
        for _ in range(random.choice((1, 1, 2, 5))):
            _change(random, tree, self._trees)
        return json.dumps(tree).encode()

    @property
    def readers(self) -> Sequence[Callable[[bytes], object]]:
        """Return what reads each kind of document."""
        return (
            _measurement,
            lambda text: parse(text, "run.hw").text(),
            lambda text: Baseline.read(self.file.fill(text)),
            _plan,
        )


def _measurement(text: bytes) -> None:
    for ledger in ledgers_of(text.decode(errors="replace").splitlines(keepends=True), "saved.json"):
        to_document(ledger)


def _plan(text: bytes) -> None:
    """Do what the journal does: a ValueError there is a sentence."""
    try:
        for row in json.loads(text):
            change_of(row)
    except (ValueError, RecursionError):
        pass
    except TypeError as error:
        if "iterable" not in str(error):  # the journal checks that it is a list
            raise


def _ledger(start: int, end: int) -> Ledger:
    states = {"user": Cell((end - start) // 2, 3), "wait.futex": Cell((end - start) // 2, 1)}
    causes = (Cause("wait.futex", Behind.WAKER, "other", (end - start) // 4, 1, 8),)
    thread = Thread(7, 7, "x", start, start, None, end, end - start, states, causes=causes)
    return Ledger(
        "bpf", Window(start, end), (thread,), (Processor(0, end - start, {"user": Cell(end - start, 1)}),),
        losses={"events": 1},
    )  # fmt: skip


def _baseline() -> str:
    quality = dict.fromkeys(("rpi", "epi", "mpi", "kpi", "iopi"), Quality.EXACT)
    block = BaselineEntry("ns", quality, dict.fromkeys(FIGURES, FigureLevel(5, 1, 3)))
    entry = BaselineEntry("ns", quality, dict.fromkeys(FIGURES, FigureLevel(5, 1, 3)), {"a block": block})
    machine = MeasuredMachine(architecture="x86_64", processor="a processor", processors=2, kernel="6.1", python="3.11")
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "baseline.json")
        Baseline(machine, "bpf", {"test": entry}, "2026-11-23T00:00:00+00:00").write(path)
        with open(path) as file:
            return file.read()


def _change(random: Random, tree: Any, others: list[Any]) -> None:
    """Replace, remove or add a value somewhere in a document."""
    places = list(_places(tree))
    if not places:
        return
    inside, key = random.choice(places)
    kind = random.random()
    if kind < 0.15:
        del inside[key]
    elif kind < 0.25 and isinstance(inside, list):
        inside.append(inside[key])
    elif kind < 0.35 and isinstance(inside, dict):
        inside[random.choice(("schema", "x", "", key + "\n", "user"))] = inside[key]
    elif kind < 0.45:
        other, place = random.choice(list(_places(random.choice(others))))
        inside[key] = json.loads(json.dumps(other[place]))
    elif kind < 0.75:
        inside[key] = number(random) * random.choice((1, 1, -1))
    else:
        inside[key] = json.loads(json.dumps(random.choice(_VALUES)))


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        keys: Any = one.keys() if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


TARGET = JsonTarget
