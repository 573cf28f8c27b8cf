"""Reads the exports ndjson, har and perfetto in a folder, and compares them with each other."""

import json
import sys
from pathlib import Path

from haralyzer import HarParser
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def exchanges(folder: Path) -> list[dict]:
    lines = map(json.loads, (folder / "ndjson").read_text().splitlines())
    return [line for line in lines if line["type"] == "exchange"]


def slices(folder: Path) -> list[tuple[int, int]]:
    """Returns the start and duration of each exchange in the trace."""
    trace = Trace()
    trace.ParseFromString((folder / "perfetto").read_bytes())
    tracks = {packet.track_descriptor.uuid for packet in trace.packet}
    opened: dict[int, list] = {}
    found = []
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        assert event.track_uuid in tracks, "every event is on a track"
        stack = opened.setdefault(event.track_uuid, [])
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((packet.timestamp, list(event.categories)))
        else:
            start, categories = stack.pop()
            if categories == ["exchange"]:
                found.append((start, packet.timestamp - start))
    assert not any(opened.values()), "every slice ends"
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = exchanges(folder)
    drawn = slices(folder)
    assert sorted(drawn) == sorted((x["start_ns"], x["latency_ns"]) for x in wanted)
    with (folder / "har").open() as file:
        archive = HarParser(json.load(file))
    entries = archive.har_data["entries"]
    assert len(entries) == sum(" /" in x["request"] for x in wanted)
    print(f"{len(drawn)} exchanges as slices, {len(entries)} as entries")


main()
