// One exchange in full: its waits as in the timing table of browsers, its stages and its packets.

import { useEffect, useRef } from "preact/hooks";
import type { PicturedExchange } from "../../document/picture.ts";
import { displayFilter } from "../../exchange.ts";
import { CopyFilter } from "../../parts/copy.tsx";
import { Count, MaybeNs, Ns, OwnerMark, Text } from "../../parts/figure.tsx";
import { after, bytes } from "../../quantity.ts";
import { isServed } from "../../served.ts";
import { knownOwner, stageWords, waitWords } from "../../words.ts";
import { Packets } from "./packets.tsx";

interface Props {
    exchange: PicturedExchange;
    /** The index of the exchange in the document; negative if it is not there. */
    number: number;
    start: number;
    onClose(): void;
}

export function Detail({ exchange, number, start, onClose }: Props) {
    const heading = useRef<HTMLHeadingElement>(null);
    // biome-ignore lint/correctness/useExhaustiveDependencies: each opened exchange gets the focus.
    useEffect(() => heading.current?.focus(), [exchange]);
    const filter = displayFilter(exchange);
    return (
        <section class="detail" aria-labelledby="exchange-detail">
            <h3 id="exchange-detail" ref={heading} tabIndex={-1}>
                <Text of={exchange.request} />, <Text of={exchange.outcome} />,{" "}
                <Ns of={exchange.latency_ns} />
            </h3>
            <button type="button" class="close" onClick={onClose}>
                Close
            </button>
            <Facts exchange={exchange} start={start} />
            <Waits exchange={exchange} />
            {(exchange.at_host ?? []).length > 0 && <Stages exchange={exchange} />}
            {filter && <CopyFilter filter={filter} />}
            {isServed() && exchange.first_packet !== null && (
                <Packets exchange={exchange} number={number} />
            )}
        </section>
    );
}

function Facts({ exchange, start }: { exchange: PicturedExchange; start: number }) {
    const { first_packet: first, last_packet: last } = exchange;
    return (
        <p>
            From <Text of={exchange.client} /> to <Text of={exchange.server} />, begun{" "}
            {after(exchange.start_ns - start)} after the start
            {exchange.response_bytes != null && (
                <>
                    ; response of{" "}
                    <span data-value={exchange.response_bytes}>
                        {bytes(exchange.response_bytes)}
                    </span>
                </>
            )}
            .
            {first !== null && last !== null && (
                <>
                    {" "}
                    Packets <Count of={first} /> to <Count of={last} /> of{" "}
                    <Text of={exchange.capture} />.
                </>
            )}
            {(exchange.shows ?? []).length > 0 && (
                <>
                    {" "}
                    An example of <Text of={exchange.shows?.join(", ")} />.
                </>
            )}
            {exchange.joined_waits ? (
                <>
                    {" "}
                    <Count of={exchange.joined_waits} /> short waits are joined with their
                    neighbours.
                </>
            ) : null}
        </p>
    );
}

function Waits({ exchange }: { exchange: PicturedExchange }) {
    let at = 0;
    const rows = exchange.waits.map((wait) => {
        const from = at;
        at += wait.duration_ns;
        return { wait, from };
    });
    return (
        <Timing
            caption="Waits"
            heads={["Wait", "Owner", "Time", "Duration", "± at most", "Ended by packet"]}
            rows={rows.map(({ wait, from }) => ({
                name: waitWords(wait.kind),
                owner: <OwnerMark of={wait.owner} />,
                fill: `owner-${knownOwner(wait.owner)}`,
                from: from / exchange.latency_ns,
                width: wait.duration_ns / exchange.latency_ns,
                cells: [
                    <Ns key="duration" of={wait.duration_ns} />,
                    <MaybeNs key="error" of={wait.error_ns} />,
                    wait.released_by_packet === null ? "–" : <Count of={wait.released_by_packet} />,
                ],
            }))}
        />
    );
}

function Stages({ exchange }: { exchange: PicturedExchange }) {
    const stages = exchange.at_host ?? [];
    const total = stages.reduce((sum, stage) => sum + stage.duration_ns, 0) || 1;
    let at = 0;
    return (
        <Timing
            caption="At the server's host, as its kernel saw it"
            heads={["Stage", "Time", "Duration"]}
            rows={stages.map((stage, i) => {
                const from = at / total;
                at += stage.duration_ns;
                return {
                    name: stageWords(stage.stage),
                    fill: `stage-${i % 2}`,
                    from,
                    width: stage.duration_ns / total,
                    cells: [<Ns key="duration" of={stage.duration_ns} />],
                };
            })}
        />
    );
}

interface TimingRow {
    name: string;
    owner?: preact.ComponentChild;
    fill: string;
    /** Begin and width as parts of the whole. */
    from: number;
    width: number;
    cells: preact.ComponentChild[];
}

function Timing({ caption, heads, rows }: { caption: string; heads: string[]; rows: TimingRow[] }) {
    return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region needs the focus.
        <section class="scroll" tabIndex={0} aria-label={`Table: ${caption}`}>
            <table class="twin timing">
                <caption>{caption}</caption>
                <thead>
                    <tr>
                        {heads.map((head) => (
                            <th key={head} scope="col">
                                {head}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {rows.map((row, i) => (
                        <tr key={i}>
                            <th scope="row">{row.name}</th>
                            {row.owner && <td>{row.owner}</td>}
                            <td>
                                <TimingBar from={row.from} width={row.width} fill={row.fill} />
                            </td>
                            {row.cells.map((cell, j) => (
                                <td key={j} class="number">
                                    {cell}
                                </td>
                            ))}
                        </tr>
                    ))}
                </tbody>
            </table>
        </section>
    );
}

const BAR_PX = 220;

function TimingBar({ from, width, fill }: { from: number; width: number; fill: string }) {
    return (
        <svg width={BAR_PX} height={12} aria-hidden="true">
            <rect class="track" width={BAR_PX} height={12} />
            <rect class={fill} x={from * BAR_PX} width={Math.max(width * BAR_PX, 1)} height={12} />
        </svg>
    );
}
