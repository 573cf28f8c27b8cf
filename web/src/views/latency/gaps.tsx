// Marks where the capture lacks packets, so that an empty stretch is not taken for quiet.

import type { Raster } from "../../document/picture.ts";
import type { Plane } from "../../parts/brush.ts";
import { counted } from "../../quantity.ts";

/** A time after the start at which the capture lacks packets of requests. */
export interface Gap {
    from: number;
    to: number;
    count: number;
}

/** The columns of the requests that the capture cuts, one after the other. */
export function gapsOf({ start_ns, column_ns, cells }: Raster, start: number): Gap[] {
    const counts = new Map<number, number>();
    for (const [, column, , count] of cells) {
        counts.set(column, (counts.get(column) ?? 0) + count);
    }
    return [...counts].map(([column, count]) => {
        const from = start_ns - start + column * column_ns;
        return { from, to: from + column_ns, count };
    });
}

/** A mark on the axis of time, at least a few pixels wide. */
export function GapMark({ gap, plane }: { gap: Gap; plane: Plane }) {
    const place = (at: number) => Math.min(Math.max(plane.x.at(at), plane.left), plane.right);
    const width = Math.max(place(gap.to) - place(gap.from), 4);
    return (
        <rect
            class="gaps"
            x={Math.min(place(gap.from), plane.right - width)}
            y={plane.bottom - 5}
            width={width}
            height={7}
        />
    );
}

export function GapLegend({ gaps }: { gaps: Gap[] }) {
    const count = gaps.reduce((sum, gap) => sum + gap.count, 0);
    return count === 0 ? null : (
        <span>
            <span class="swatch gaps" aria-hidden="true" />
            the capture lacks packets of {counted(count, "request")}
        </span>
    );
}
