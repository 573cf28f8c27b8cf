// The score of recordings with a known cause: the confusion of expected and found causes.

import { useMemo } from "preact/hooks";
import type { Confused, ScoreEntry, Together } from "../document/score.ts";
import type { PageDocument } from "../document.ts";
import { Count, Text } from "../parts/figure.tsx";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { count } from "../quantity.ts";
import { visible } from "../visible.ts";

type Score = NonNullable<PageDocument["score"]>;

export function ScoreView({ score }: { score: Score }) {
    const confused = useMemo(() => confusionOf(score), [score]);
    const together = togetherOf(score);
    return (
        <View
            id="score"
            title="Expected and found causes"
            says="Each row is a cause that recordings have, each column the cause that was found first. All on the diagonal is right; causes that were only ever found as expected are left out of the picture."
        >
            {together && <Sum together={together} />}
            <p class="legend">
                {LEGEND.map(([kind, words]) => (
                    <span key={kind}>
                        <span class={`swatch ${kind}`} aria-hidden="true" />
                        {words}
                    </span>
                ))}
            </p>
            <Matrix confused={confused} />
            <Twin
                caption="Expected and found causes"
                columns={[
                    { head: "Expected" },
                    { head: "Found first" },
                    { head: "Kind" },
                    { head: "Diagnoses", isNumber: true },
                ]}
                rows={confused.map((one) => [
                    <Text key="expected" of={one.expected ?? NOTHING} />,
                    <Text key="found" of={one.found ?? NOTHING} />,
                    one.kind,
                    <Count key="count" of={one.count} />,
                ])}
            />
        </View>
    );
}

const LEGEND = [
    ["right", "as expected"],
    ["hidden", "something else, where the packets cannot show the cause"],
    ["wrong", "something else"],
] as const;

const NOTHING = "nothing";

function confusionOf(score: Score): Confused[] {
    if (!Array.isArray(score)) {
        return score.confusion;
    }
    const isConfusion = (entry: ScoreEntry) => entry.type === "confusion";
    return score.filter(isConfusion);
}

function togetherOf(score: Score): Together | undefined {
    return Array.isArray(score) ? score.find((entry) => entry.type === "together") : score.together;
}

function Sum({ together }: { together: Together }) {
    return (
        <p>
            Of <Count of={together.known} /> diagnoses of visible faults,{" "}
            <Count of={together.first_right} /> name the cause first and{" "}
            <Count of={together.owner_right} /> the owner; <Count of={together.silent} /> say
            nothing. Of <Count of={together.healthy} /> without a fault,{" "}
            <Count of={together.firmly_accused} /> accuse something firmly.
        </p>
    );
}

const CELL_PX = 26;
const NAMES_PX = 190;
const HEADS_PX = 150;

function Matrix({ confused }: { confused: Confused[] }) {
    const wrong = confused.filter((one) => one.expected !== one.found);
    const name = (cause: string | null) => cause ?? NOTHING;
    const rows = [...new Set(wrong.map((one) => name(one.expected)))].sort();
    const columns = [...new Set([...wrong.map((one) => name(one.found)), ...rows])].sort();
    const most = Math.max(...confused.map((one) => one.count), 1);
    const shown = confused.filter(
        (one) => rows.includes(name(one.expected)) && columns.includes(name(one.found)),
    );
    const [width, height] = [
        NAMES_PX + columns.length * CELL_PX + 90,
        HEADS_PX + rows.length * CELL_PX + 4,
    ];
    return (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolled region needs the focus.
        <section class="scroll" tabIndex={0} aria-label="Confusion matrix">
            <svg
                width={width}
                height={height}
                class="matrix"
                role="img"
                aria-label="Expected and found causes; the table below lists them."
            >
                {columns.map((column, i) => (
                    <text
                        key={column}
                        transform={`translate(${NAMES_PX + (i + 0.65) * CELL_PX} ${HEADS_PX - 8}) rotate(-60)`}
                    >
                        {visible(column)}
                    </text>
                ))}
                {rows.map((row, i) => (
                    <text
                        key={row}
                        x={NAMES_PX - 8}
                        y={HEADS_PX + (i + 0.65) * CELL_PX}
                        text-anchor="end"
                    >
                        {visible(row)}
                    </text>
                ))}
                {shown.map((one) => (
                    <Square
                        key={`${one.expected} ${one.found} ${one.kind}`}
                        one={one}
                        x={NAMES_PX + columns.indexOf(name(one.found)) * CELL_PX}
                        y={HEADS_PX + rows.indexOf(name(one.expected)) * CELL_PX}
                        weight={Math.log1p(one.count) / Math.log1p(most)}
                    />
                ))}
            </svg>
        </section>
    );
}

function Square({ one, x, y, weight }: { one: Confused; x: number; y: number; weight: number }) {
    const isRight = one.expected === one.found;
    return (
        <g>
            <rect
                class={isRight ? "right" : one.kind === "hidden" ? "hidden" : "wrong"}
                x={x}
                y={y}
                width={CELL_PX - 1}
                height={CELL_PX - 1}
                fill-opacity={0.2 + 0.3 * weight}
            />
            <text x={x + CELL_PX / 2} y={y + 17} text-anchor="middle">
                {count(one.count)}
            </text>
        </g>
    );
}
