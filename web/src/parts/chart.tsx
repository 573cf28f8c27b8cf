// A chart made by uPlot: its colours follow the page, and the arrow keys move its cursor.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useTheme, useWidth } from "./hooks.ts";

export interface ChartSeries {
    label: string;
    /** Name of a custom property of the style sheet, without the dashes. */
    colour: string;
    kind?: "line" | "steps" | "steps-before" | "points" | "crosses";
    dash?: number[];
}

export interface ChartProps {
    label: string;
    height: number;
    data: uPlot.AlignedData;
    series: ChartSeries[];
    x: ChartAxis;
    y: ChartAxis;
    /** Further series, which are drawn when the reader chooses them. */
    others?: ChartSeries[];
    /** Draws a series, or no longer. */
    onToggle?(label: string): void;
}

export interface ChartAxis {
    label: string;
    values: (value: number) => string;
    isLog?: boolean;
    splits?: number[];
}

export function Chart(props: ChartProps) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const theme = useTheme();
    const chart = useRef<uPlot | null>(null);
    const [at, setAt] = useState<number | null>(null);
    // biome-ignore lint/correctness/useExhaustiveDependencies: the colours depend on the theme.
    useLayoutEffect(() => {
        const element = ref.current;
        if (!element || width === 0) {
            return undefined;
        }
        const made = new uPlot(options(props, width, element, setAt), props.data, element);
        chart.current = made;
        return () => made.destroy();
    }, [props.data, props.series, width, theme]);
    return (
        <div class="chart">
            {/* biome-ignore lint/a11y/useSemanticElements: a fieldset would not be focusable. */}
            <div
                ref={ref}
                style={{ minHeight: `${props.height}px` }}
                role="group"
                // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move the cursor.
                tabIndex={0}
                aria-label={`${props.label}. Left and right move the cursor.`}
                onKeyDown={(event) => chart.current && moveCursor(chart.current, event)}
            />
            <Legend {...props} at={at} />
        </div>
    );
}

/** The series with their values at the cursor. */
function Legend(props: ChartProps & { at: number | null }) {
    const { series, data, x, y, at, others = [], onToggle } = props;
    const position = at === null ? null : data[0]?.[at];
    const entries = [...series, ...others];
    return (
        <p class="legend" aria-live="polite">
            {position != null && <span>{x.values(position)}:</span>}
            {entries.map((one, i) => {
                const value = at === null ? null : data[i + 1]?.[at];
                const words = (
                    <>
                        <Sample of={one} />
                        {one.label}
                        {i < series.length && value != null && <> {y.values(value)}</>}
                    </>
                );
                return onToggle ? (
                    <button
                        key={one.label}
                        type="button"
                        class="toggle"
                        aria-pressed={i < series.length}
                        onClick={() => onToggle(one.label)}
                    >
                        {words}
                    </button>
                ) : (
                    <span key={one.label}>{words}</span>
                );
            })}
        </p>
    );
}

/** How a series is drawn: its colour, its dashes, its marks. */
function Sample({ of }: { of: ChartSeries }) {
    const isMarks = of.kind === "points" || of.kind === "crosses";
    return (
        <svg class={`sample sample-${of.colour}`} width={28} height={10} aria-hidden="true">
            {isMarks ? (
                <circle cx={14} cy={5} r={of.kind === "crosses" ? 3.5 : 2} />
            ) : (
                <line x1={0} x2={28} y1={5} y2={5} stroke-dasharray={of.dash?.join(" ")} />
            )}
        </svg>
    );
}

const FONT = "12px system-ui, sans-serif";
/** Space that a label needs. */
const LABEL_PX = 52;

function options(
    props: ChartProps,
    width: number,
    element: HTMLElement,
    onCursor: (at: number | null) => void,
): uPlot.Options {
    const colour = (name: string) => getComputedStyle(element).getPropertyValue(`--${name}`).trim();
    const axis = (it: ChartAxis, size: number): uPlot.Axis => ({
        label: it.label,
        labelSize: 20,
        font: FONT,
        labelFont: FONT,
        size,
        stroke: colour("ink"),
        grid: { stroke: colour("grid"), width: 1 },
        ticks: { stroke: colour("grid"), width: 1 },
        values: (_, splits) => splits.map((v) => (v === null ? "" : it.values(v))),
        ...(it.splits ? { splits: spread(it.splits) } : {}),
    });
    return {
        width,
        height: props.height,
        legend: { show: false },
        cursor: { drag: { x: true, y: false }, focus: { prox: 24 } },
        scales: {
            x: { time: false },
            y: props.y.isLog ? { distr: 3 } : {},
        },
        axes: [axis(props.x, 36), axis(props.y, 70)],
        series: [{}, ...props.series.map((one) => series(one, colour))],
        hooks: {
            setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)],
        },
    };
}

/** Leaves out ticks whose labels would overlap; the later one stays, as the tail matters more. */
function spread(splits: number[]) {
    return (chart: uPlot, _axis: number, low: number, high: number) => {
        const px = chart.bbox.width / uPlot.pxRatio / (high - low || 1);
        const isFree = (at: number, i: number) => {
            const next = splits[i + 1];
            return next === undefined || next > high || (next - at) * px >= LABEL_PX;
        };
        return splits.filter((at, i) => at >= low && at <= high && isFree(at, i));
    };
}

function series(one: ChartSeries, colour: (name: string) => string): uPlot.Series {
    const stroke = colour(one.colour);
    const isMarks = one.kind === "points" || one.kind === "crosses";
    return {
        label: one.label,
        stroke,
        width: isMarks ? 0 : 1.5,
        dash: one.dash,
        spanGaps: true,
        paths: paths(one.kind),
        points: { show: isMarks, size: one.kind === "crosses" ? 7 : 4, fill: stroke, width: 1 },
    };
}

function paths(kind: ChartSeries["kind"]): uPlot.Series.PathBuilder | undefined {
    switch (kind) {
        case "steps":
            return uPlot.paths.stepped?.({ align: 1 });
        case "steps-before":
            return uPlot.paths.stepped?.({ align: -1 });
        case "points":
        case "crosses":
            return () => null;
        default:
            return undefined;
    }
}

function moveCursor(chart: uPlot, event: KeyboardEvent) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const last = (chart.data[0]?.length ?? 0) - 1;
    if (step === undefined || last < 0) {
        return;
    }
    event.preventDefault();
    const at = Math.min(Math.max((chart.cursor.idx ?? -1) + step, 0), last);
    const left = chart.valToPos(chart.data[0]?.[at] ?? 0, "x");
    chart.setCursor({ left, top: chart.over.clientHeight / 2 });
}
