// Where the packets of a ladder stand: a time axis on which silence is compressed.

import type { Ladder, LadderGap, LadderPacket } from "../../document/picture.ts";

/** Distance of packets that follow each other at once. */
const STEP_PX = 24;
/** Maximum additional distance for the time between two packets. */
const MOST_PX = 64;
/** Part of the exchange's duration from which a silent stretch is named. */
const LONG = 0.05;
const TOP_PX = 34;

export interface Placed {
    packet: LadderPacket;
    y: number;
}

export interface Silence {
    from: number;
    to: number;
    ns: number;
}

/** A place where packets were left out. */
export interface Cut {
    y: number;
    packets: number;
}

export interface Layout {
    packets: Placed[];
    silences: Silence[];
    cuts: Cut[];
    height: number;
    /** The position of a time after the start of the exchange. */
    at(ns: number): number;
}

export function layoutOf(ladder: Ladder): Layout {
    const packets = ladder.packets;
    const stops: [number, number][] = [];
    const placed: Placed[] = [];
    const silences: Silence[] = [];
    const cuts: Cut[] = [];
    let [y, before] = [TOP_PX, packets[0]?.at_ns ?? 0];
    packets.forEach((packet, i) => {
        const ns = Math.max(packet.at_ns - before, 0);
        const next =
            i === 0
                ? y
                : y + STEP_PX + stretch(ns, ladder.latency_ns) + (packet.left_out ? STEP_PX : 0);
        if (packet.left_out) {
            cuts.push({ y: (y + next) / 2, packets: packet.left_out });
        } else if (i > 0 && ns >= LONG * ladder.latency_ns) {
            silences.push({ from: y, to: next, ns });
        }
        placed.push({ packet, y: next });
        stops.push([packet.at_ns, next]);
        [y, before] = [next, packet.at_ns];
    });
    return { packets: placed, silences, cuts, height: y + STEP_PX, at: (ns) => between(stops, ns) };
}

function stretch(ns: number, whole: number): number {
    return MOST_PX * Math.min(ns / Math.max(whole * 0.2, 1), 1);
}

/** The position between the packets before and after. */
function between(stops: [number, number][], ns: number): number {
    const next = stops.findIndex(([at]) => at >= ns);
    const [before, after] = next < 0 ? [stops.at(-1), undefined] : [stops[next - 1], stops[next]];
    if (!before || !after) {
        return (before ?? after)?.[1] ?? TOP_PX;
    }
    const part = (ns - before[0]) / Math.max(after[0] - before[0], 1);
    return before[1] + part * (after[1] - before[1]);
}

/** Height within which the words of a shaded wait stand, so that they are seen without scrolling. */
const SEEN_PX = 400;

/** Where the words of a shaded wait stand: in the widest space between its packets. */
export function wordsAt(
    layout: Layout,
    top: number,
    bottom: number,
): { y: number; isNarrow: boolean } {
    const end = Math.min(bottom, top + SEEN_PX);
    const inside = layout.packets.map(({ y }) => y).filter((y) => y > top && y < end);
    const edges = [top, ...inside, end];
    let [middle, widest] = [(top + bottom) / 2, 0];
    edges.slice(1).forEach((edge, i) => {
        const before = edges[i] ?? top;
        if (edge - before > widest) {
            [middle, widest] = [(before + edge) / 2, edge - before];
        }
    });
    return { y: middle, isNarrow: widest <= STEP_PX * 1.5 && inside.length > 0 };
}

/** The waits to shade: those that a finding explains, otherwise the longest one. */
export function guilty(ladder: Ladder): LadderGap[] {
    const explained = ladder.gaps.filter((gap) => gap.cause);
    return explained.length > 0 ? explained : ladder.gaps.slice(0, 1);
}
