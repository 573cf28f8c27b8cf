// Latency over time: the density of the exchanges by time and latency, to be brushed.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Density, densityOf, type Range, scatterOf, whole } from "../density.ts";
import type { PictureService } from "../document/picture.ts";
import type { LatencyMode } from "../document/report.ts";
import type { PageDocument } from "../document.ts";
import { merge, paint } from "../grid.ts";
import { between, onKey, type Plane, toBox } from "../parts/brush.ts";
import { Select } from "../parts/choice.tsx";
import { OwnerMark } from "../parts/figure.tsx";
import { useLater, useWidth } from "../parts/hooks.ts";
import { LatencyAxis, TimeAxis } from "../parts/ticks.tsx";
import { View } from "../parts/view.tsx";
import { share } from "../quantity.ts";
import { linear, logarithmic } from "../scale.ts";
import { isServed, type Listed } from "../served.ts";
import { visible } from "../visible.ts";
import { OWNERS } from "../words.ts";
import { ColumnTable } from "./latency/columns.tsx";
import { type Gap, GapLegend, GapMark, gapsOf } from "./latency/gaps.tsx";
import { Listing } from "./latency/listing.tsx";
import { Selected } from "./latency/selected.tsx";

const HEIGHT = 320;
const MARGIN = { left: 64, right: 22, top: 8, bottom: 26 };

interface Props {
    document: PageDocument;
    range: Range | null;
    onRange(range: Range | null): void;
    onListed(listed: Listed | null): void;
}

export function hasLatency({ picture, report }: PageDocument): boolean {
    const clusters = report?.details?.clusters ?? [];
    // A single second of our own timestamps is a distribution, and the percentiles show that.
    const isOverTime = clusters.some(({ second }) => second > 0);
    const hasCells = (picture?.raster.cells ?? []).length > 0;
    return hasCells || (isOverTime && clusters.some(({ latency }) => latency.length > 0));
}

export function Latency({ document, range, onRange, onListed }: Props) {
    const density = useMemo(() => densityOf(document), [document]);
    const scatter = useLater(() => {
        const picture = document.picture;
        return picture ? scatterOf(picture.points, picture.raster) : null;
    }, document);
    // By name: the busiest comes first, so that the order may change.
    const [server, setServer] = useState<string | null>(null);
    const services = document.picture?.services ?? [];
    const at = services.findIndex((one) => one.server === server);
    const service = at < 0 ? null : at;
    const owners = useMemo(() => new Set(density?.owner), [density]);
    if (!density) {
        return null;
    }
    const says = density.hasOwners
        ? "Each square: requests that began then and took that long; darker means more. Its colour is the owner of most of their time. Drag to select, or use the arrow keys."
        : "Each square: requests of that second that took that long, by our own timestamps; darker means more. Drag to select, or use the arrow keys.";
    const { cut, raster } = document.picture ?? {};
    const gaps = cut && raster ? gapsOf(cut, raster.start_ns) : [];
    return (
        <View id="latency" title="Latency over time" says={says}>
            <Services
                services={services}
                value={service}
                onChange={(at) => setServer(services[at]?.server ?? null)}
            />
            <Picture
                density={density}
                service={service}
                modes={document.report?.exchanges.modes ?? []}
                gaps={gaps}
                range={range}
                onRange={onRange}
            />
            {density.hasOwners && (
                <p class="legend">
                    {OWNERS.filter((_, i) => owners.has(i)).map((owner) => (
                        <OwnerMark key={owner} of={owner} />
                    ))}
                    <GapLegend gaps={gaps} />
                </p>
            )}
            <Selected
                density={density}
                scatter={scatter}
                service={service}
                range={range}
                overall={document.report?.exchanges ?? null}
                onRange={onRange}
            />
            {isServed() && document.picture && range && (
                <Listing range={range} service={service} onListed={onListed} />
            )}
            <ColumnTable density={density} service={service} />
        </View>
    );
}

/** The choice of all servers, which is no number. */
const ALL = "all";

function Services(props: {
    services: PictureService[];
    value: number | null;
    /** With NaN for all. */
    onChange(service: number): void;
}) {
    const { services } = props;
    if (services.length < 2) {
        return null;
    }
    const options = services.map((service, i): [string, string] => [
        String(i),
        visible(service.server || "all others"),
    ]);
    return (
        <p class="controls">
            <Select
                label="Server"
                value={String(props.value ?? ALL)}
                options={[[ALL, ALL], ...options]}
                onChange={(value) => props.onChange(Number(value))}
            />
        </p>
    );
}

interface PictureProps {
    density: Density;
    service: number | null;
    modes: LatencyMode[];
    gaps: Gap[];
    range: Range | null;
    onRange(range: Range | null): void;
}

function Picture({ density, service, modes, gaps, range, onRange }: PictureProps) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const canvas = useRef<HTMLCanvasElement>(null);
    const plane = useMemo(() => planeOf(density, width), [density, width]);
    // At once, not after the next frame: printing does not wait for one.
    useLayoutEffect(() => {
        if (canvas.current && width > 0) {
            draw(canvas.current, density, service, plane);
        }
    }, [density, service, plane, width]);
    const drag = useBrush(plane, onRange);
    const onKeyDown = (event: KeyboardEvent) => {
        const next = onKey(plane, range, event.key, event.shiftKey);
        if (next !== undefined) {
            event.preventDefault();
            onRange(next);
        }
    };
    return (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset would not be focusable.
        <div
            class="raster"
            ref={ref}
            role="group"
            // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move the selection.
            tabIndex={0}
            aria-label="Selection of time and latency. Arrow keys move it, Shift with arrow keys changes its size, Escape removes it."
            onKeyDown={onKeyDown}
        >
            <canvas ref={canvas} />
            {width > 0 && (
                <svg width={width} height={HEIGHT} aria-hidden="true" {...drag}>
                    <Axes density={density} plane={plane} />
                    {modes.map((mode) => (
                        <ModeLine key={mode.peak_ns} mode={mode} plane={plane} />
                    ))}
                    {gaps.map((gap) => (
                        <GapMark key={gap.from} gap={gap} plane={plane} />
                    ))}
                    {range && <Shade plane={plane} range={range} />}
                </svg>
            )}
        </div>
    );
}

/** Least ratio of the ends of the latency axis: on a shorter one, each square would be a tower. */
const LEAST_RATIO = 4;

/** The latencies of the axis: all of them, with room where they are close to each other. */
function latencies(density: Density): [number, number] {
    const { low, high } = whole(density);
    const room = Math.max(Math.sqrt(LEAST_RATIO / (high / Math.max(low, 1))), 1);
    return [low / room, high * room];
}

function planeOf(density: Density, width: number): Plane {
    const all = whole(density);
    const [left, right] = [MARGIN.left, Math.max(width - MARGIN.right, MARGIN.left + 1)];
    const [top, bottom] = [MARGIN.top, HEIGHT - MARGIN.bottom];
    return {
        x: linear(all.from, all.to, left, right),
        y: logarithmic(...latencies(density), bottom, top),
        left,
        right,
        top,
        bottom,
    };
}

/** Draws the squares. Each is a whole number of the document's columns, so the last one may reach
 * beyond the end of the time. */
function draw(canvas: HTMLCanvasElement, density: Density, service: number | null, plane: Plane) {
    const all = whole(density);
    const [bottom, top] = [plane.y.at(all.low), plane.y.at(all.high)];
    const [width, height] = [plane.right - plane.left, bottom - top];
    const grid = merge(density, service, [width, height]);
    const squares = new OffscreenCanvas(grid.width, grid.height);
    const image = new ImageData(paint(grid), grid.width, grid.height);
    squares.getContext("2d")?.putImageData(image, 0, 0);
    const dense = devicePixelRatio || 1;
    canvas.width = Math.round((plane.right + MARGIN.right) * dense);
    canvas.height = Math.round(HEIGHT * dense);
    const context = canvas.getContext("2d");
    if (!context) {
        return;
    }
    context.scale(dense, dense);
    context.imageSmoothingEnabled = false;
    context.beginPath();
    context.rect(plane.left, top, width, height);
    context.clip();
    const across = (width * grid.width * grid.across) / density.columns;
    const down = (height * grid.height * grid.down) / Math.max(density.rows.length - 1, 1);
    context.drawImage(squares, plane.left, bottom - down, across, down);
}

/** Handlers that make a selection by dragging; a click removes it. */
function useBrush(plane: Plane, onRange: (range: Range | null) => void) {
    const start = useRef<[number, number] | null>(null);
    const at = (event: PointerEvent): [number, number] => [event.offsetX, event.offsetY];
    return {
        onPointerDown(event: PointerEvent) {
            (event.currentTarget as Element).setPointerCapture(event.pointerId);
            start.current = at(event);
        },
        onPointerMove(event: PointerEvent) {
            if (start.current) {
                onRange(between(plane, start.current, at(event)));
            }
        },
        onPointerUp(event: PointerEvent) {
            if (start.current) {
                onRange(between(plane, start.current, at(event)));
            }
            start.current = null;
        },
    };
}

function Axes({ density, plane }: { density: Density; plane: Plane }) {
    const all = whole(density);
    const [low, high] = latencies(density);
    return (
        <>
            <LatencyAxis scale={plane.y} low={low} high={high} from={plane.left} to={plane.right} />
            <TimeAxis
                scale={plane.x}
                low={all.from}
                high={all.to}
                from={plane.top}
                to={plane.bottom}
            />
        </>
    );
}

function ModeLine({ mode, plane }: { mode: LatencyMode; plane: Plane }) {
    const y = plane.y.at(mode.peak_ns);
    const words = [share(mode.share), ...mode.causes.map(visible)].join(" · ");
    return (
        <g class="mode">
            <line x1={plane.left} x2={plane.right} y1={y} y2={y} />
            <text x={plane.right - 4} y={y < plane.top + 16 ? y + 16 : y - 5} text-anchor="end">
                {words}
            </text>
        </g>
    );
}

function Shade({ plane, range }: { plane: Plane; range: Range }) {
    const box = toBox(plane, range);
    const outer = `M${plane.left} ${plane.top}H${plane.right}V${plane.bottom}H${plane.left}Z`;
    const inner = `M${box.x0} ${box.y0}H${box.x1}V${box.y1}H${box.x0}Z`;
    return (
        <>
            <path class="shade" d={outer + inner} fill-rule="evenodd" />
            <path class="brush" d={inner} />
        </>
    );
}
