// The packets of an exchange that the server of the page reads from the capture.

import { useEffect, useState } from "preact/hooks";
import type { Picture, PicturedExchange } from "../../document/picture.ts";
import { packetsOf } from "../../served.ts";
import { Connections } from "../connection.tsx";
import { Ladders } from "../ladder.tsx";

type State = "idle" | "asked" | "failed" | Picture;

interface Props {
    exchange: PicturedExchange;
    /** The index of the exchange in the document; negative if it is not there. */
    number: number;
}

/** Shows the packets when they are asked for. */
export function Packets({ exchange, number }: Props) {
    const [state, setState] = useState<State>("idle");
    // biome-ignore lint/correctness/useExhaustiveDependencies: another exchange has other packets.
    useEffect(() => setState("idle"), [exchange]);
    if (typeof state === "object") {
        return <Shown picture={state} />;
    }
    const ask = () => {
        setState("asked");
        packetsOf(exchange, number).then(setState, () => setState("failed"));
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
            <Ladders ladders={ladders} id="exchange-ladder" of="this exchange" />
            {connections.length > 0 && (
                <Connections
                    connections={connections}
                    id="exchange-connection"
                    of="this exchange"
                />
            )}
        </>
    );
}
