"""Reads the exports ndjson, har and perfetto in a folder, and compares them with each other."""

import json
import sys
from pathlib import Path

from haralyzer import HarParser
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


def exchanges(folder: Path) -> list[dict]:
    lines = map(json.loads, (folder / "ndjson").read_text().splitlines())
    return [line for line in lines if line["type"] == "exchange"]


def trace(folder: Path) -> Trace:
    trace = Trace()
    trace.ParseFromString((folder / "perfetto").read_bytes())
    assert any(packet.HasField("clock_snapshot") for packet in trace.packet)
    return trace


def arrows(trace: Trace) -> int:
    """Returns the number of arrows, of which each has one beginning and one end."""
    events = [packet.track_event for packet in trace.packet]
    begun = [flow for event in events for flow in event.flow_ids]
    ended = [flow for event in events for flow in event.terminating_flow_ids]
    assert sorted(begun) == sorted(ended) == sorted(set(begun))
    return len(begun)


def slices(trace: Trace) -> list[tuple[int, int]]:
    """Returns the start and duration of each exchange in the trace."""
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
        elif event.type == TrackEvent.TYPE_SLICE_END:
            start, categories = stack.pop()
            if categories == ["exchange"]:
                found.append((start, packet.timestamp - start))
    assert not any(opened.values()), "every slice ends"
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    wanted = exchanges(folder)
    drawn = slices(trace(folder))
    linked = arrows(trace(folder))
    assert sorted(drawn) == sorted((x["start_ns"], x["latency_ns"]) for x in wanted)
    with (folder / "har").open() as file:
        archive = HarParser(json.load(file))
    entries = archive.har_data["entries"]
    assert len(entries) == sum(" /" in x["request"] for x in wanted)
    print(f"{len(drawn)} exchanges as slices, {linked} arrows, {len(entries)} as entries")


main()
