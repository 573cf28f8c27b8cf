// The score of recordings with a known cause. `lagtrace-lab score` writes it as an object or, one
// entry a line, as in corpus/SCORE.json.

export interface ScoreObject {
    confusion: Confused[];
    together: Together;
}

export type ScoreEntry =
    | ({ type: "confusion" } & Confused)
    | ({ type: "together" } & Together)
    | { type: "case" | "totals" };

export interface Confused {
    kind: "known" | "hidden" | "healthy";
    /** The cause of the recording; null without a fault. */
    expected: string | null;
    /** The cause found first; null if nothing was found. */
    found: string | null;
    count: number;
}

export interface Together {
    known: number;
    first_right: number;
    owner_right: number;
    silent: number;
    healthy: number;
    firmly_accused: number;
}
