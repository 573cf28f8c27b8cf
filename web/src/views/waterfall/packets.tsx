// The packets of an exchange that the server of the page reads from the capture.

import { useEffect, useState } from "preact/hooks";
import type { Picture } from "../../document/picture.ts";
import { Connections } from "../connection.tsx";
import { Ladders } from "../ladder.tsx";

/** True if the page comes from `lagtrace view --serve`, which answers requests for packets. */
export function isServed(): boolean {
    return document.body.dataset.served !== undefined;
}

type State = "idle" | "asked" | "failed" | Picture;

/** Shows the packets when they are asked for. `number` is the index of the exchange in the document. */
export function Packets({ number }: { number: number }) {
    const [state, setState] = useState<State>("idle");
    // biome-ignore lint/correctness/useExhaustiveDependencies: another exchange has other packets.
    useEffect(() => setState("idle"), [number]);
    if (typeof state === "object") {
        return <Shown picture={state} />;
    }
    const ask = () => {
        setState("asked");
        packetsOf(number).then(setState, () => setState("failed"));
    };
    return (
        <p aria-live="polite">
            <button type="button" onClick={ask} disabled={state === "asked"}>
                Show its packets
            </button>{" "}
            {state === "asked" && "The capture is read …"}
            {state === "failed" &&
                "The packets could not be read: the server has ended, or the capture has changed."}
        </p>
    );
}

function Shown({ picture }: { picture: Picture }) {
    const { ladders = [], connections = [] } = picture;
    if (ladders.length === 0) {
        return <p>The capture has no packets of this exchange any more.</p>;
    }
    return (
        <>
            <Ladders ladders={ladders} id="exchange-ladder" />
            {connections.length > 0 && (
                <Connections connections={connections} id="exchange-connection" />
            )}
        </>
    );
}

async function packetsOf(number: number): Promise<Picture> {
    const answer = await fetch(`packets/${number}`);
    if (!answer.ok) {
        throw new Error(`HTTP ${answer.status}`);
    }
    return (await answer.json()) as Picture;
}
