// Series of points as a chart needs them.

/** Pairs of x and y. */
export type Points = [number, number][];

/** Joins series to columns with one x axis. */
export function join(all: Points[]): [number[], ...(number | null)[][]] {
    const xs = [...new Set(all.flatMap((series) => series.map(([x]) => x)))].sort((a, b) => a - b);
    const columns = all.map((series) => {
        const values = new Map(series);
        return xs.map((x) => values.get(x) ?? null);
    });
    return [xs, ...columns];
}
