// Choices from lists.

interface SelectProps {
    label: string;
    value: string;
    /** Value and words of each option. */
    options: [string, string][];
    onChange(value: string): void;
}

export function Select({ label, value, options, onChange }: SelectProps) {
    return (
        <label>
            {label}{" "}
            <select value={value} onInput={(event) => onChange(event.currentTarget.value)}>
                {options.map(([id, words]) => (
                    <option key={id} value={id}>
                        {words}
                    </option>
                ))}
            </select>
        </label>
    );
}

interface ChoiceProps {
    label: string;
    names: string[];
    value: number;
    onChange(at: number): void;
}

/** A choice among a few pictures of the same kind; nothing if there is only one. */
export function Choice({ label, names, value, onChange }: ChoiceProps) {
    if (names.length < 2) {
        return null;
    }
    const options = names.map((name, i): [string, string] => [
        String(i),
        `${i + 1} of ${names.length}: ${name}`,
    ]);
    return (
        <p class="controls">
            <Select
                label={label}
                value={String(value)}
                options={options}
                onChange={(at) => onChange(Number(at))}
            />
        </p>
    );
}
