"""What was said of a trial, beside its truth."""

import re

# What says where the time is and accuses nobody.
LOCATING = re.compile("time-")
ACCUSING = {"strong", "proven"}
# Seconds that a run may take beyond its duration.
BEYOND = 5


def said(report):
    found = report["findings"]
    return ", ".join(f"{f['cause']} {f['verdict']} ({f['culprit']})" for f in found) or "nothing"


def changes(finding):
    return " ".join(f"{fix['where']} {fix['change']}" for fix in finding["fix"])


def untrue_fixes(trial, report):
    """Changes that were recommended and that this server does not know."""
    text = " ".join(changes(finding) for finding in report["findings"])
    hits = [re.search(pattern, text) for pattern in trial.forbidden()]
    return [hit.group() for hit in hits if hit]


def judge(trial, report, code, beyond):
    """The verdict on one trial: each of what is asked, and what is wrong in words."""
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
        # Time that is located is no accusation: it is the server's own work.
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
