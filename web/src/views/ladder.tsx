// The packets of an example between client and server, with the guilty wait shaded.

import { useMemo, useState } from "preact/hooks";
import type { Ladder, LadderGap, LadderPacket, PicturedExchange } from "../document/picture.ts";
import { Choice } from "../parts/choice.tsx";
import { CopyFilter } from "../parts/copy.tsx";
import { Count, Difference, Text } from "../parts/figure.tsx";
import { useWidth } from "../parts/hooks.ts";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { bytes, count, duration } from "../quantity.ts";
import { visible } from "../visible.ts";
import { knownOwner, waitWords } from "../words.ts";
import { guilty, type Layout, layoutOf, type Placed, wordsAt } from "./ladder/layout.ts";

interface Props {
    ladders: Ladder[];
    /** Those of the picture, with their setup. */
    exchanges?: PicturedExchange[];
    id?: string;
    /** Whose packets they are: names differ from those of another view on the page. */
    of?: string;
}

export function Ladders({ ladders, exchanges = [], id = "ladder", of = "examples" }: Props) {
    const [at, setAt] = useState(0);
    const ladder = ladders[at];
    if (!ladder) {
        return null;
    }
    const setup = setupOf(ladder, exchanges);
    const names = ladders.map(
        (one) => `${visible(one.cause ?? "slowest")}, ${duration(one.latency_ns)}`,
    );
    return (
        <View
            id={id}
            title={`Packets of ${of}`}
            says={`The packets of one exchange as they passed the capture point, from top to bottom. Long silences are compressed and say how long they last. ${shaded(ladder, setup)}`}
        >
            <Choice label="Example" names={names} value={at} onChange={setAt} />
            <p>
                From <Text of={ladder.client} /> to <Text of={ladder.server} />.
            </p>
            <LadderPicture ladder={ladder} setup={setup} of={of} />
            {ladder.display_filter && <CopyFilter filter={ladder.display_filter} />}
            <PacketTable ladder={ladder} of={of} />
        </View>
    );
}

/** The setup of the connection, where it and no wait of the exchange is what the finding is about;
 * null if it is not, or is not among the packets. */
function setupOf(ladder: Ladder, exchanges: PicturedExchange[]): LadderGap | null {
    const isIt = (one: PicturedExchange) =>
        one.client === ladder.client && one.start_ns === ladder.start_ns;
    const ns = exchanges.find(isIt)?.setup_ns ?? 0;
    const isShown = (ladder.packets[0]?.at_ns ?? 0) < 0;
    if (!ladder.cause || ladder.gaps.some((gap) => gap.cause) || ns <= 0 || !isShown) {
        return null;
    }
    const cause = `${ladder.cause}, in the setup`;
    return { at_ns: -ns, duration_ns: ns, kind: "unknown", owner: "unknown", cause };
}

function shaded({ gaps }: Ladder, setup: LadderGap | null): string {
    if (setup) {
        return "The finding is about the setup of the connection, which is shaded.";
    }
    if (gaps.some((gap) => gap.cause)) {
        return "The shaded wait is the one that the finding explains.";
    }
    return gaps.length > 0 ? "The shaded wait is the longest one." : "";
}

/** Space for the times. */
const LEFT_PX = 84;
const RIGHT_PX = 14;
/** How far an arrow falls: it shows the direction, not the time on the path. */
const FALL_PX = 8;

interface PictureProps {
    ladder: Ladder;
    setup: LadderGap | null;
    of: string;
}

function LadderPicture({ ladder, setup, of }: PictureProps) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const layout = useMemo(() => layoutOf(ladder), [ladder]);
    const lines: [number, number] = [LEFT_PX, Math.max(width - RIGHT_PX, LEFT_PX + 120)];
    const words = `${ladder.packets.length} packets between client and server; the table below lists them.`;
    return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region needs the focus.
        <section class="ladder" tabIndex={0} aria-label={`Ladder of ${of}`}>
            <div ref={ref}>
                {width > 0 && (
                    <svg
                        width={width}
                        height={layout.height + FALL_PX}
                        role="img"
                        aria-label={words}
                    >
                        <Arrowheads />
                        {(setup ? [setup] : guilty(ladder)).map((gap) => (
                            <Gap
                                key={gap.at_ns}
                                gap={gap}
                                cause={ladder.cause}
                                layout={layout}
                                lines={lines}
                            />
                        ))}
                        <Lifelines lines={lines} height={layout.height} />
                        {layout.silences.map((silence) => (
                            <text
                                key={silence.from}
                                class="silence"
                                x={LEFT_PX - 8}
                                y={(silence.from + silence.to) / 2 + 4}
                            >
                                ⋮ {duration(silence.ns)}
                            </text>
                        ))}
                        {layout.packets.map((placed) => (
                            <Arrow key={placed.packet.number} placed={placed} lines={lines} />
                        ))}
                        {layout.cuts.map((cut) => (
                            <text
                                key={cut.y}
                                class="cut"
                                x={(lines[0] + lines[1]) / 2}
                                y={cut.y + 4}
                            >
                                … {count(cut.packets)} packets left out …
                            </text>
                        ))}
                    </svg>
                )}
            </div>
        </section>
    );
}

function Arrowheads() {
    return (
        <defs>
            {["sent", "resent"].map((kind) => (
                <marker
                    key={kind}
                    id={`arrow-${kind}`}
                    viewBox="0 0 8 8"
                    refX="7"
                    refY="4"
                    markerWidth="7"
                    markerHeight="7"
                    orient="auto"
                >
                    <path class={`head ${kind}`} d="M0 0L8 4L0 8Z" />
                </marker>
            ))}
        </defs>
    );
}

function Lifelines({ lines, height }: { lines: [number, number]; height: number }) {
    return (
        <g class="lifelines">
            <text class="unit" x={LEFT_PX - 8} y={14} text-anchor="end">
                ms
            </text>
            {(["client", "server"] as const).map((end, i) => (
                <g key={end}>
                    <text x={lines[i]} y={14} text-anchor={i === 0 ? "start" : "end"}>
                        {end}
                    </text>
                    <line x1={lines[i]} x2={lines[i]} y1={20} y2={height} />
                </g>
            ))}
        </g>
    );
}

function Arrow({ placed, lines }: { placed: Placed; lines: [number, number] }) {
    const { packet, y } = placed;
    const [from, to] = packet.from_client ? lines : [lines[1], lines[0]];
    const kind = packet.is_retransmission ? "resent" : "sent";
    return (
        <g class={`packet ${kind}`}>
            <text class="time" x={LEFT_PX - 8} y={y + 4}>
                {(packet.at_ns / 1e6).toFixed(3).replace("-", "−")}
            </text>
            <line x1={from} y1={y} x2={to} y2={y + FALL_PX} marker-end={`url(#arrow-${kind})`} />
            <text class="packet-label" x={(lines[0] + lines[1]) / 2} y={y - 1}>
                {label(packet)}
            </text>
        </g>
    );
}

function label(packet: LadderPacket): string {
    const data = packet.bytes > 0 ? ` ${bytes(packet.bytes)}` : "";
    const resent = packet.is_retransmission ? " again" : "";
    return `#${packet.number} [${visible(packet.flags)}]${data}${resent}`;
}

interface GapProps {
    gap: LadderGap;
    /** The finding of which the ladder is an example. */
    cause: string | null | undefined;
    layout: Layout;
    lines: [number, number];
}

function Gap({ gap, cause, layout, lines }: GapProps) {
    const [top, bottom] = [layout.at(gap.at_ns), layout.at(gap.at_ns + gap.duration_ns)];
    // The time of a request that failed is no wait, so that only the finding has a name for it.
    const byFinding = gap.kind === "unknown" ? cause : null;
    const name = visible(gap.cause ?? byFinding ?? waitWords(gap.kind));
    const words = `${name}: ${duration(gap.duration_ns)}`;
    const place = wordsAt(layout, top, bottom);
    // Between packets that follow each other closely, they stand where no packet has its label.
    const x = place.isNarrow ? lines[0] + FALL_PX * 2 : (lines[0] + lines[1]) / 2;
    return (
        <g class={place.isNarrow ? "gap beside" : "gap"}>
            <rect
                class={`owner-${knownOwner(gap.owner)}`}
                x={lines[0]}
                width={lines[1] - lines[0]}
                y={top}
                height={Math.max(bottom - top, 2)}
            />
            <text x={x} y={place.y + FALL_PX}>
                {words}
            </text>
        </g>
    );
}

function PacketTable({ ladder, of }: { ladder: Ladder; of: string }) {
    const numbers = ["Time", "Bytes", "Sequence", "Acknowledged", "Window"];
    const heads = [
        "Packet",
        "Time",
        "From",
        "Flags",
        "Bytes",
        "Sequence",
        "Acknowledged",
        "Window",
        "Sent before",
    ];
    const row = (packet: LadderPacket) => [
        <Count key="number" of={packet.number} />,
        <Difference key="at" of={packet.at_ns} />,
        packet.from_client ? "client" : "server",
        <Text key="flags" of={packet.flags} />,
        <Count key="bytes" of={packet.bytes} />,
        <Count key="seq" of={packet.seq} />,
        packet.ack == null ? "–" : <Count key="ack" of={packet.ack} />,
        packet.window == null ? "–" : <Count key="window" of={packet.window} />,
        packet.is_retransmission ? "yes" : "no",
    ];
    return (
        <Twin
            caption={`Packets of ${of}`}
            columns={heads.map((head) => ({ head, isNumber: numbers.includes(head) }))}
            rows={() => ladder.packets.map(row)}
        />
    );
}
