// The axes of pictures that are drawn as SVG.

import { duration } from "../quantity.ts";
import { logTicks, type Scale, ticks } from "../scale.ts";

interface AxisProps {
    scale: Scale;
    low: number;
    high: number;
    from: number;
    to: number;
}

/** Space that a label needs, in pixels. */
const LABEL_PX = { x: 70, y: 26 };

/** A time axis at the bottom, with grid lines upwards. */
export function TimeAxis({ scale, low, high, from, to }: AxisProps) {
    const room = Math.abs(scale.at(high) - scale.at(low)) / LABEL_PX.x;
    return (
        <g class="axis">
            {ticks(low, high, room).map((at) => (
                <g key={at}>
                    <line x1={scale.at(at)} x2={scale.at(at)} y1={from} y2={to} />
                    <text x={scale.at(at)} y={to + 16} text-anchor="middle">
                        {at === 0 ? "0" : duration(at)}
                    </text>
                </g>
            ))}
        </g>
    );
}

/** A logarithmic axis of latency on the left, with grid lines to the right. */
export function LatencyAxis({ scale, low, high, from, to }: AxisProps) {
    const room = Math.abs(scale.at(high) - scale.at(low)) / LABEL_PX.y;
    return (
        <g class="axis">
            {logTicks(low, high, room).map((at) => (
                <g key={at}>
                    <line x1={from} x2={to} y1={scale.at(at)} y2={scale.at(at)} />
                    <text x={from - 6} y={scale.at(at) + 4} text-anchor="end">
                        {duration(at)}
                    </text>
                </g>
            ))}
        </g>
    );
}

/** A logarithmic axis of latency at the bottom, with grid lines upwards. */
export function LatencyAxisBelow({ scale, low, high, from, to }: AxisProps) {
    const room = Math.abs(scale.at(high) - scale.at(low)) / LABEL_PX.x;
    return (
        <g class="axis">
            {logTicks(low, high, room).map((at) => (
                <g key={at}>
                    <line x1={scale.at(at)} x2={scale.at(at)} y1={from} y2={to} />
                    <text x={scale.at(at)} y={to + 16} text-anchor="middle">
                        {duration(at)}
                    </text>
                </g>
            ))}
        </g>
    );
}
