"""Comparison of a report on a trial with the truth."""

import re

# Causes that only locate time and accuse nobody.
LOCATING = re.compile("time-")
ACCUSING = {"strong", "proven"}
# Maximum time of a run beyond the requested duration, in seconds.
BEYOND = 5


def said(report):
    found = report["findings"]
    return ", ".join(f"{f['cause']} {f['verdict']} ({f['culprit']})" for f in found) or "nothing"


def changes(finding):
    return " ".join(f"{fix['where']} {fix['change']}" for fix in finding["fix"])


def untrue_fixes(trial, report):
    """Returns the recommended changes that do not exist for this kind of server."""
    text = " ".join(changes(finding) for finding in report["findings"])
    hits = [re.search(pattern, text) for pattern in trial.forbidden()]
    return [hit.group() for hit in hits if hit]


def judge(trial, report, code, beyond):
    """Returns the verdict on one trial: the result of each requirement, and the faults in words."""
    found = report["findings"]
    wrong = []
    if trial.causes:
        place = bool(found) and found[0]["culprit"] == "server"
        cause = place and found[0]["cause"] in trial.causes
        if not place:
            wrong.append("WRONG PLACE" if found else "SILENT")
        elif not cause:
            wrong.append("place only" if LOCATING.match(found[0]["cause"]) else "WRONG CAUSE")
    else:
        # Locating time is not an accusation, because the server's own work takes time.
        accused = code == 1 or any(f["verdict"] in ACCUSING for f in found)
        place = cause = not accused
        if accused:
            wrong.append("ACCUSED")
    untrue = untrue_fixes(trial, report)
    if untrue:
        wrong.append(f"fix does not apply: {', '.join(untrue)}")
    if beyond > BEYOND:
        wrong.append(f"{beyond:.1f} s beyond")
    return {"place": place, "cause": cause, "fixes": not untrue, "time": beyond <= BEYOND}, wrong
