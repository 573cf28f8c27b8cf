// The button that lists the selected exchanges, where the page is served.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Range } from "../../density.ts";
import type { Owner } from "../../document.ts";
import { Select } from "../../parts/choice.tsx";
import { count, counted } from "../../quantity.ts";
import { exchangesOf, type Listed } from "../../served.ts";
import { OWNERS } from "../../words.ts";

interface Props {
    range: Range;
    service: number | null;
    onListed(listed: Listed | null): void;
}

type State = "idle" | "asked" | "failed" | Listed;

export function Listing({ range, service, onListed }: Props) {
    const [owner, setOwner] = useState<Owner | "">("");
    const [state, setState] = useState<State>("idle");
    const asked = useRef<AbortController | null>(null);
    // A list is of one selection.
    // biome-ignore lint/correctness/useExhaustiveDependencies: it ends with what was selected.
    useEffect(() => {
        setState("idle");
        return () => {
            asked.current?.abort();
            onListed(null);
        };
    }, [range, service, owner]);
    const list = () => {
        const control = new AbortController();
        asked.current = control;
        setState("asked");
        exchangesOf(range, service, owner, control.signal).then(
            (listed) => {
                setState(listed);
                onListed(listed);
            },
            () => control.signal.aborted || setState("failed"),
        );
    };
    return (
        <p class="controls">
            <Select
                label="Owner"
                value={owner}
                options={[["", "any"], ...OWNERS.map((it): [string, string] => [it, it])]}
                onChange={(value) => setOwner(value as Owner | "")}
            />
            <button type="button" onClick={list} disabled={state === "asked"}>
                List these exchanges
            </button>
            <span aria-live="polite">{told(state)}</span>
        </p>
    );
}

function told(state: State): string {
    switch (state) {
        case "idle":
            return "";
        case "asked":
            return "The capture is read …";
        case "failed":
            return "They could not be read: the server has ended, or the capture has changed.";
        default:
            return `${counted(state.total, "exchange")}, ${count(state.exchanges.length)} listed below.`;
    }
}
