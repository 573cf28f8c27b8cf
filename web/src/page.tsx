// All views of a document, in their order.

import type { ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Range } from "./density.ts";
import type { Report } from "./document/report.ts";
import type { PageDocument } from "./document.ts";
import { Guard } from "./parts/guard.tsx";
import { showTopBar } from "./parts/topbar.tsx";
import { AccountView, hasAccount } from "./views/account.tsx";
import { Captures } from "./views/captures.tsx";
import { BothCurves, BothShares, Differences, FindingChanges } from "./views/comparison.tsx";
import { Connections } from "./views/connection.tsx";
import { Curves, hasCurves } from "./views/curves.tsx";
import { Experiments } from "./views/experiments.tsx";
import { Knee } from "./views/knee.tsx";
import { Ladders } from "./views/ladder.tsx";
import { hasLatency, Latency } from "./views/latency.tsx";
import { Probes } from "./views/probes.tsx";
import { hasRoute, RouteView } from "./views/route.tsx";
import { ScoreView } from "./views/score.tsx";
import { hasSockets, Sockets } from "./views/sockets.tsx";
import { Waterfall } from "./views/waterfall.tsx";

/** A view: its id, the words of its link, whether the document has data for it, and how it is drawn. */
interface Entry {
    id: string;
    link: string;
    isThere: boolean;
    view: () => ComponentChild;
}

export function Page({ document }: { document: PageDocument }) {
    const [range, setRange] = useState<Range | null>(null);
    const entries = entriesOf(document, range, setRange).filter((entry) => entry.isThere);
    // The document does not change, so neither do the links.
    // biome-ignore lint/correctness/useExhaustiveDependencies: see above.
    useEffect(() => showTopBar(entries.map(({ id, link }) => ({ id, link }))), []);
    return (
        <>
            {entries.map(({ id, link, view }) => (
                <Guard key={id} name={link}>
                    {view()}
                </Guard>
            ))}
        </>
    );
}

type OnRange = (range: Range | null) => void;

function entriesOf(document: PageDocument, range: Range | null, onRange: OnRange): Entry[] {
    switch (document.kind) {
        case "comparison":
            return ofComparison(document);
        case "score":
            return ofScore(document);
        case "report":
            return [...ofPicture(document, range, onRange), ...ofReport(document.report)];
    }
}

function ofPicture(document: PageDocument, range: Range | null, onRange: OnRange): Entry[] {
    const { picture } = document;
    const ladders = picture?.ladders ?? [];
    const connections = picture?.connections ?? [];
    return [
        {
            id: "latency",
            link: "over time",
            isThere: hasLatency(document),
            view: () => <Latency document={document} range={range} onRange={onRange} />,
        },
        {
            id: "curves",
            link: "percentiles",
            isThere: hasCurves(document),
            view: () => <Curves document={document} />,
        },
        {
            id: "waterfall",
            link: "exchanges",
            isThere: (picture?.exchanges ?? []).length > 0,
            view: () => picture && <Waterfall picture={picture} range={range} />,
        },
        {
            id: "ladder",
            link: "packets",
            isThere: ladders.length > 0,
            view: () => <Ladders ladders={ladders} />,
        },
        {
            id: "connection",
            link: "connections",
            isThere: connections.length > 0,
            view: () => <Connections connections={connections} />,
        },
    ];
}

function ofReport(report: Report | null | undefined): Entry[] {
    if (!report) {
        return [];
    }
    const { account = [], experiments = [], joined, probes = [], sweep } = report;
    return [
        {
            id: "account",
            link: "account",
            isThere: hasAccount(account),
            view: () => <AccountView accounts={account} />,
        },
        {
            id: "captures",
            link: "two captures",
            isThere: joined != null,
            view: () => joined && <Captures joined={joined} />,
        },
        {
            id: "experiments",
            link: "experiments",
            isThere: experiments.length > 0,
            view: () => <Experiments outcomes={experiments} />,
        },
        {
            id: "knee",
            link: "load",
            isThere: (sweep?.steps ?? []).length > 0,
            view: () => sweep && <Knee sweep={sweep} />,
        },
        {
            id: "probes",
            link: "probes",
            isThere: probes.length > 0,
            view: () => <Probes probes={probes} />,
        },
        {
            id: "route",
            link: "route",
            isThere: hasRoute(report),
            view: () => <RouteView report={report} />,
        },
        {
            id: "sockets",
            link: "sockets",
            isThere: hasSockets(report),
            view: () => <Sockets report={report} />,
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
            view: () => comparison && <Differences comparison={comparison} />,
        },
        {
            id: "curves",
            link: "percentiles",
            isThere: isWhole,
            view: () => <BothCurves document={document} />,
        },
        {
            id: "shares",
            link: "shares",
            isThere: isWhole,
            view: () => <BothShares document={document} />,
        },
        {
            id: "changes",
            link: "findings",
            isThere: (comparison?.findings ?? []).length > 0,
            view: () => comparison && <FindingChanges changes={comparison.findings} />,
        },
    ];
}

function ofScore({ score }: PageDocument): Entry[] {
    return [
        {
            id: "score",
            link: "causes",
            isThere: score != null,
            view: () => score && <ScoreView score={score} />,
        },
    ];
}
