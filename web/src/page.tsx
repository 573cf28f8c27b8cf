// All views of a document, in their order.

import type { ComponentChild } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { delayed, type Range } from "./density.ts";
import type { PageDocument } from "./document.ts";
import { Guard } from "./parts/guard.tsx";
import { isKept, Kept } from "./parts/kept.ts";
import { showTopBar } from "./parts/topbar.tsx";
import type { Listed } from "./served.ts";
import { AccountView, hasAccount } from "./views/account.tsx";
import { Captures } from "./views/captures.tsx";
import { BothCurves, BothShares, Differences, FindingChanges } from "./views/comparison.tsx";
import { Connections } from "./views/connection.tsx";
import { Curves, hasCurves } from "./views/curves.tsx";
import { Experiments } from "./views/experiments.tsx";
import { Ladders } from "./views/ladder.tsx";
import { hasLatency, Latency } from "./views/latency.tsx";
import { Probes } from "./views/probes.tsx";
import { hasRoute, RouteView } from "./views/route.tsx";
import { ScoreView } from "./views/score.tsx";
import { hasSockets, Sockets } from "./views/sockets.tsx";
import { Waterfall } from "./views/waterfall.tsx";

/** The selection in the picture of latency over time, which other views follow. */
interface Brush {
    range: Range | null;
    onRange(range: Range | null): void;
    /** The exchanges of the selection, which only a served page can list. */
    listed: Listed | null;
    onListed(listed: Listed | null): void;
}

/** A view: its id, the words of its link, whether the document has data for it, and how it is drawn.
 * A view that does not follow the selection is made once: it is not compared when that moves. */
interface Entry {
    id: string;
    link: string;
    isThere: boolean;
    view: (brush: Brush) => ComponentChild;
}

interface Props {
    document: PageDocument;
    onDrawn(): void;
}

export function Page({ document, onDrawn }: Props) {
    const origin = document.picture?.raster.start_ns ?? 0;
    const [selected, setSelected] = useState<{ range: Range; origin: number } | null>(null);
    const [listed, setListed] = useState<Listed | null>(null);
    // A later version of the page may begin at another time.
    const range = useMemo(
        () => selected && delayed(selected.range, selected.origin - origin),
        [selected, origin],
    );
    const onRange = (range: Range | null) => setSelected(range && { range, origin });
    const brush = { range, onRange, listed, onListed: setListed };
    const entries = useMemo(() => entriesOf(document).filter((entry) => entry.isThere), [document]);
    useEffect(() => showTopBar(entries.map(({ id, link }) => ({ id, link }))), [entries]);
    // One view after the other, so that the first can be used while the others are drawn.
    const [drawn, setDrawn] = useState(1);
    const isWhole = drawn >= entries.length;
    useEffect(() => (isWhole ? onDrawn() : setDrawn(drawn + 1)), [drawn, isWhole, onDrawn]);
    return (
        <Kept.Provider value={isKept(document)}>
            {entries.slice(0, drawn).map(({ id, link, view }) => (
                <Guard key={id} name={link}>
                    {view(brush)}
                </Guard>
            ))}
        </Kept.Provider>
    );
}

function once(view: ComponentChild): () => ComponentChild {
    return () => view;
}

function entriesOf(document: PageDocument): Entry[] {
    switch (document.kind) {
        case "comparison":
            return ofComparison(document);
        case "score":
            return ofScore(document);
        case "report":
            return [...ofPicture(document), ...ofReport(document)];
    }
}

function ofPicture(document: PageDocument): Entry[] {
    const { picture } = document;
    const ladders = picture?.ladders ?? [];
    const connections = picture?.connections ?? [];
    return [
        {
            id: "latency",
            link: "over time",
            isThere: hasLatency(document),
            view: (brush) => <Latency document={document} {...brush} />,
        },
        {
            id: "curves",
            link: "percentiles",
            isThere: hasCurves(document),
            view: once(<Curves document={document} />),
        },
        {
            id: "waterfall",
            link: "exchanges",
            isThere: (picture?.exchanges ?? []).length > 0,
            view: ({ range, listed }) =>
                picture && <Waterfall picture={picture} range={range} listed={listed} />,
        },
        {
            id: "ladder",
            link: "packets",
            isThere: ladders.length > 0,
            view: once(<Ladders ladders={ladders} exchanges={picture?.exchanges ?? []} />),
        },
        {
            id: "connection",
            link: "connections",
            isThere: connections.length > 0,
            view: once(<Connections connections={connections} />),
        },
    ];
}

function ofReport({ report, picture }: PageDocument): Entry[] {
    if (!report) {
        return [];
    }
    const { account = [], experiments = [], joined, probes = [] } = report;
    return [
        {
            id: "account",
            link: "account",
            isThere: hasAccount(account),
            view: once(<AccountView accounts={account} />),
        },
        {
            id: "captures",
            link: "two captures",
            isThere: joined != null,
            view: once(joined && <Captures joined={joined} />),
        },
        {
            id: "experiments",
            link: "experiments",
            isThere: experiments.length > 0,
            view: once(<Experiments outcomes={experiments} />),
        },
        {
            id: "probes",
            link: "probes",
            isThere: probes.length > 0,
            view: once(<Probes probes={probes} />),
        },
        {
            id: "route",
            link: "route",
            isThere: hasRoute(report),
            view: once(<RouteView report={report} />),
        },
        {
            id: "sockets",
            link: "sockets",
            isThere: hasSockets({ report, picture }),
            view: once(<Sockets report={report} picture={picture} />),
        },
    ];
}

function ofComparison(document: PageDocument): Entry[] {
    const { comparison } = document;
    const isWhole = document.before != null && document.after != null;
    return [
        {
            id: "differences",
            link: "differences",
            isThere: (comparison?.latency ?? []).length > 0,
            view: once(comparison && <Differences comparison={comparison} />),
        },
        {
            id: "curves",
            link: "percentiles",
            isThere: isWhole,
            view: once(<BothCurves document={document} />),
        },
        {
            id: "shares",
            link: "shares",
            isThere: isWhole,
            view: once(<BothShares document={document} />),
        },
        {
            id: "changes",
            link: "findings",
            isThere: (comparison?.findings ?? []).length > 0,
            view: once(comparison && <FindingChanges changes={comparison.findings} />),
        },
    ];
}

function ofScore({ score }: PageDocument): Entry[] {
    return [
        {
            id: "score",
            link: "causes",
            isThere: score != null,
            view: once(score && <ScoreView score={score} />),
        },
    ];
}
