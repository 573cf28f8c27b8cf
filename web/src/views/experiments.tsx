// Interventions: requests with and without each, and the difference with its interval.

import type { ExperimentOutcome } from "../document/report.ts";
import { experimentWords } from "../experiment.ts";
import { Count, Difference, Ns, Text } from "../parts/figure.tsx";
import { Ranges } from "../parts/ranges.tsx";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";

const NUMBERS = [
    "Control, mean",
    "Treated, mean",
    "Control, p99",
    "Treated, p99",
    "Difference of the means",
    "95 % from",
    "to",
    "Alternations",
];

export function Experiments({ outcomes }: { outcomes: ExperimentOutcome[] }) {
    const rows = outcomes.flatMap((it) => [
        {
            name: `without: ${experimentWords(it.experiment)}`,
            ...rangeOf(it.control),
            kind: "control",
        },
        {
            name: `with: ${experimentWords(it.experiment)}`,
            ...rangeOf(it.treated),
            kind: "treated",
        },
    ]);
    return (
        <View
            id="experiments"
            title="Experiments"
            says="Requests with and without each intervention, interleaved: from the minimum to the maximum; the marks are the median and the 99th percentile."
        >
            <Ranges
                label="Latency with and without each intervention; the table below lists it."
                rows={rows}
            />
            {outcomes.map((it, i) => (
                <p key={i}>
                    {experimentWords(it.experiment)}: <Difference of={it.difference_ns} /> (95 %:{" "}
                    <Difference of={it.difference_low_ns} /> to{" "}
                    <Difference of={it.difference_high_ns} />
                    ). <Text of={it.meaning} />
                </p>
            ))}
            <Twin
                caption="Experiments"
                columns={["Intervention", "Target", ...NUMBERS].map((head) => ({
                    head,
                    isNumber: NUMBERS.includes(head),
                }))}
                rows={outcomes.map((it) => [
                    experimentWords(it.experiment),
                    <Text key="target" of={it.target} />,
                    <Ns key="control" of={it.control.mean} />,
                    <Ns key="treated" of={it.treated.mean} />,
                    <Ns key="control99" of={it.control.p99} />,
                    <Ns key="treated99" of={it.treated.p99} />,
                    <Difference key="difference" of={it.difference_ns} />,
                    <Difference key="low" of={it.difference_low_ns} />,
                    <Difference key="high" of={it.difference_high_ns} />,
                    <Count key="alternations" of={it.alternations} />,
                ])}
            />
        </View>
    );
}

function rangeOf(figures: ExperimentOutcome["control"]) {
    return { low: figures.min, high: figures.max, marks: [figures.p50, figures.p99] };
}
