// All views of a document, in their order.

import type { ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Range } from "./density.ts";
import type { PageDocument } from "./document.ts";
import { showTopBar } from "./parts/topbar.tsx";
import { Curves, hasCurves } from "./views/curves.tsx";
import { Ladders } from "./views/ladder.tsx";
import { hasLatency, Latency } from "./views/latency.tsx";
import { Waterfall } from "./views/waterfall.tsx";

/** A view: its id, the words of its link, and how it is drawn. */
interface Entry {
    id: string;
    link: string;
    view: ComponentChild;
}

export function Page({ document }: { document: PageDocument }) {
    const [range, setRange] = useState<Range | null>(null);
    const entries = entriesOf(document, range, setRange);
    // The document does not change, so neither do the links.
    // biome-ignore lint/correctness/useExhaustiveDependencies: see above.
    useEffect(() => showTopBar(entries.map(({ id, link }) => ({ id, link }))), []);
    return (
        <>
            {entries.map(({ id, view }) => (
                <div key={id}>{view}</div>
            ))}
        </>
    );
}

type OnRange = (range: Range | null) => void;

function entriesOf(document: PageDocument, range: Range | null, onRange: OnRange): Entry[] {
    const picture = document.picture;
    const all: [boolean, Entry][] = [
        [
            hasLatency(document),
            {
                id: "latency",
                link: "over time",
                view: <Latency document={document} range={range} onRange={onRange} />,
            },
        ],
        [hasCurves(document), { id: "curves", link: "percentiles", view: <Curves document={document} /> }],
    ];
    if (picture) {
        all.push(
            [
                picture.exchanges.length > 0,
                { id: "waterfall", link: "exchanges", view: <Waterfall picture={picture} range={range} /> },
            ],
            [
                (picture.ladders ?? []).length > 0,
                { id: "ladder", link: "packets", view: <Ladders ladders={picture.ladders ?? []} /> },
            ],
        );
    }
    return all.filter(([isThere]) => isThere).map(([, entry]) => entry);
}
