// Differences with their intervals on a linear scale around zero.

import type { LatencyChange } from "../../document/comparison.ts";
import { useWidth } from "../../parts/hooks.ts";
import { difference } from "../../quantity.ts";
import { linear, ticks } from "../../scale.ts";

const ROW_PX = 30;
const LEFT_PX = 60;
const RIGHT_PX = 24;
const LABEL_PX = 80;

export function Intervals({ changes }: { changes: LatencyChange[] }) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const all = changes.flatMap((it) => [it.difference_ns, it.low_ns ?? 0, it.high_ns ?? 0]);
    const [low, high] = widened(Math.min(0, ...all), Math.max(0, ...all));
    const scale = linear(low, high, LEFT_PX, Math.max(width - RIGHT_PX, LEFT_PX + 1));
    const bottom = changes.length * ROW_PX + 4;
    return (
        <div class="ranges" ref={ref}>
            {width > 0 && (
                <svg
                    width={width}
                    height={bottom + 24}
                    role="img"
                    aria-label="Differences; the table below lists them."
                >
                    <g class="axis">
                        {ticks(low, high, (width - LEFT_PX) / LABEL_PX).map((at) => (
                            <g key={at} class={at === 0 ? "zero" : undefined}>
                                <line x1={scale.at(at)} x2={scale.at(at)} y1={4} y2={bottom} />
                                <text x={scale.at(at)} y={bottom + 16} text-anchor="middle">
                                    {at === 0 ? "0" : difference(at)}
                                </text>
                            </g>
                        ))}
                    </g>
                    {changes.map((change, i) => (
                        <Row
                            key={change.figure}
                            change={change}
                            y={4 + (i + 0.5) * ROW_PX}
                            at={scale.at}
                        />
                    ))}
                </svg>
            )}
        </div>
    );
}

interface RowProps {
    change: LatencyChange;
    y: number;
    at(value: number): number;
}

function Row({ change, y, at }: RowProps) {
    const { low_ns: low, high_ns: high } = change;
    return (
        <g class={`judged-${change.judgement}`}>
            <text x={0} y={y + 4}>
                {change.figure}
            </text>
            {low !== null && high !== null && (
                <line class="range" x1={at(low)} x2={at(high)} y1={y} y2={y} />
            )}
            <circle class="mark mark-0" cx={at(change.difference_ns)} cy={y} r={5} />
        </g>
    );
}

function widened(low: number, high: number): [number, number] {
    const more = (high - low || 1) * 0.06;
    return [low - more, high + more];
}
