// The account: each kind of wait with the time that is inherent, explained by findings, and neither.

import type { Account, Booking } from "../document/report.ts";
import { cells, OwnerMark, Text } from "../parts/figure.tsx";
import { longestOf, Stack, type StackRow } from "../parts/stack.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { counted, duration } from "../quantity.ts";
import { visible } from "../visible.ts";
import { knownOwner, LETTERS, waitWords } from "../words.ts";

export function hasAccount(accounts: Account[]): boolean {
    return accounts.some((one) => one.exchanges.length + one.setups.length > 0);
}

export function AccountView({ accounts }: { accounts: Account[] }) {
    const longest = Math.max(...accounts.map((one) => longestOf(rowsOf(one))));
    const scale = accounts.length > 1 ? " All services are on one scale." : "";
    return (
        <View
            id="account"
            title="Account of the time"
            says={`Each nanosecond of each kind of wait, booked once: inherent (distance and transmission, which no change at the owner removes), claimed by a finding, or claimed by nothing.${scale}`}
        >
            <p class="legend">
                {["inherent", "claimed", "unclaimed"].map((kind) => (
                    <span key={kind}>
                        <span class={`swatch ${kind}`} aria-hidden="true" />
                        {kind}
                    </span>
                ))}
            </p>
            {accounts.map((account) => (
                <OneAccount key={account.service} account={account} longest={longest} />
            ))}
        </View>
    );
}

const NUMBERS = ["Booked", "Inherent", "Claimed", "Unclaimed"];

function bookingsOf(account: Account) {
    return [
        ...account.exchanges.map((booking) => ({ booking, of: "requests" })),
        ...account.setups.map((booking) => ({ booking, of: "setup" })),
    ].sort((a, b) => b.booking.booked_ns - a.booking.booked_ns);
}

/** Maximum number of bars of a service. */
const MOST_ROWS = 12;

function rowsOf(account: Account): StackRow[] {
    return bookingsOf(account)
        .slice(0, MOST_ROWS)
        .map(({ booking, of }) => ({
            name: `${LETTERS[knownOwner(booking.owner)]}  ${waitWords(booking.kind)}${of === "setup" ? " (setup)" : ""}`,
            parts: parts(booking),
            figure: duration(booking.booked_ns),
        }));
}

function OneAccount({ account, longest }: { account: Account; longest: number }) {
    const bookings = bookingsOf(account);
    const service = visible(account.service);
    return (
        <>
            <h3>
                <Text of={account.service} />: {counted(account.requests, "request")},{" "}
                {counted(account.connections, "connection")}
            </h3>
            <Stack
                label={`The time of ${service} by kind of wait; the table below lists it.`}
                rows={rowsOf(account)}
                longest={longest}
            />
            <Twin
                caption={`Account of ${service}`}
                columns={columns(["Wait", "Owner", "Of"], NUMBERS, ["Claimed by"])}
                rows={bookings.map(({ booking, of }) => [
                    waitWords(booking.kind),
                    <OwnerMark key="owner" of={booking.owner} />,
                    of,
                    ...cells([
                        booking.booked_ns,
                        booking.inherent_ns,
                        booking.claimed_ns,
                        booking.unclaimed_ns,
                    ]),
                    <Text
                        key="claims"
                        of={booking.claims.map((claim) => claim.cause).join(", ") || "–"}
                    />,
                ])}
            />
        </>
    );
}

function parts(booking: Booking) {
    return [
        { value: booking.inherent_ns, kind: "inherent" },
        { value: booking.claimed_ns, kind: "claimed" },
        { value: booking.unclaimed_ns, kind: "unclaimed" },
    ];
}
