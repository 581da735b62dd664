"""``pricdr align`` as two companies run it: messages that are sent, secrets that are not, and runs that are killed."""

import json
import shutil
import stat
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from pricdr.alignment import curve
from pricdr.alignment.messages import Message, load_message, read_record
from pricdr.files import only_run

KILLED_AT_EVERY_STEP = """
import json, os, signal, sys
import pricdr.alignment.protocol
from pricdr import cli
events = {"open", "os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir"}
here, at = os.getcwd(), 0

def hook(event, arguments):
    global at
    if at and event in events and isinstance(arguments[0], (str, os.PathLike)):
        if os.path.abspath(arguments[0]).startswith(here):
            at -= 1
            if at == 0:
                os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
sys.stdout = sys.stderr = open(os.devnull, "w")

def run(command, step):
    global at
    child = os.fork()
    if child == 0:
        at = step
        os._exit(cli.run(["align", *command, *(["--processes", "1"] if command[0] != "accept" else [])]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

sessions, killed, step, stride = {}, True, 1 - int(sys.argv[1]), int(sys.argv[1])
while killed:
    step, killed = step + stride, False
    os.mkdir(f"{here}/{step}")
    os.chdir(f"{here}/{step}")
    commands = [
        ["start", "../a.txt", "--out", "m1", "--state", "a.state", "--both", "--pad-to", "11"],
        ["answer", "m1", "../b.txt", "--out", "m2", "--state", "b.state"],
        ["finish", "m2", "--state", "a.state", "--out", "users.txt", "--own-ids", "own.csv"],
        ["accept", "users.txt", "--state", "b.state"],
    ]
    codes = []
    for command in commands:
        code = run(command, step)
        if code < 0:
            killed, code = True, run(command, 0)
        codes.append(code)
    sessions[step] = codes
json.dump(sessions, sys.__stdout__)
"""


@pytest.fixture
def lists(here):
    (here / "a.txt").write_text("".join(f"u{i}\n" for i in range(9)))
    (here / "b.txt").write_text("".join(f"u{i}\n" for i in range(20, 4, -1)))
    return here


@pytest.fixture
def align(pricdr):
    def run(command: str, *, code: int = 0):
        outcome = pricdr("align", *command.split())
        assert outcome.code == code, outcome.err
        return outcome

    return run


COMMON = "".join(f"u{i}\n" for i in range(5, 9))


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def state_in(file) -> dict:
    return json.loads(file.read_text().splitlines()[0])


def test_a_session_by_files(lists, align):
    assert "m1: 9 ids, blinded\n" in align("start a.txt --out m1 --state a.state --both").out
    assert mode(lists / "a.state") == 0o600
    answered = align("answer m1 b.txt --out m2 --state b.state --at-most 9")
    assert "both sides learn the common users: run align accept" in answered.out
    out = align("finish m2 --state a.state --out users.txt --at-most 16").out
    assert "users.txt: 4 common users" in out
    assert "9 by the side that started, 16 by the other" in out
    assert (lists / "users.txt").read_text() == COMMON
    other = lists / "other"
    other.mkdir()
    shutil.copy(lists / "users.txt", other)
    align("accept other/users.txt --state b.state")
    records = [(folder / "users.txt.alignment.json").read_bytes() for folder in (lists, other)]
    assert records[0] == records[1]
    assert not [path.name for path in lists.iterdir() if path.name.startswith(".")]


def test_messages_records_and_used_states_contain_no_ids_and_no_key(lists, align):
    (lists / "a.txt").write_text("private-a\nshared-one\n")
    (lists / "b.txt").write_text("private-b\nshared-one\n")
    align("start a.txt --out m1 --state a.state")
    key = state_in(lists / "a.state")["key"]
    outcomes = [align("answer m1 b.txt --out m2 --state b.state"), align("finish m2 --state a.state --out users.txt")]
    shown = "".join(outcome.out + outcome.err for outcome in outcomes).encode()
    for name in ("m1", "m2", "users.txt.alignment.json"):
        shown += (lists / name).read_bytes()
    for secret in (b"private", b"shared", key.encode(), bytes.fromhex(key)):
        assert secret not in shown
    left = (lists / "a.state").read_bytes() + (lists / "b.state").read_bytes()  # the answerer has nothing left to do
    assert b"private" not in left
    assert key.encode() not in left


def test_padding_hides_the_number_of_ids(lists, align):
    assert "30 ids, blinded, 21 of them dummies" in align("start a.txt --out m1 --state a.state --pad-to 30").out
    align("answer m1 b.txt --out m2 --state b.state --pad-to 40")
    align("finish m2 --state a.state --out users.txt")
    record = read_record(lists / "users.txt.alignment.json")
    assert (record.starter_ids, record.answerer_ids, record.common_users) == (30, 40, 4)
    assert (lists / "users.txt").read_text() == COMMON
    sizes = (lists / "m1").stat().st_size, (lists / "m2").stat().st_size
    (lists / "c.txt").write_text("x\n")
    align("start c.txt --out n1 --state c.state --pad-to 30")
    align("answer n1 c.txt --out n2 --state d.state --pad-to 40")
    assert sizes == ((lists / "n1").stat().st_size, (lists / "n2").stat().st_size)


def test_a_rule_is_declared_by_both_and_spellings_stay_with_their_owner(lists, align):
    (lists / "a.txt").write_text("Ann@X.org\nann@x.org\nBob@x.org\n")
    (lists / "b.txt").write_text('ANN@x.org\n"carl",1@x.org\nbob@X.ORG\n')
    started = align("start a.txt --out m1 --state a.state --normalise email --both")
    assert "1 of the ids are other spellings" in started.err
    refused = align("answer m1 b.txt --out m2 --state b.state", code=2)
    rule = "its ids are normalised by the rule email, ours by exact: both sides need the same rule"
    assert refused.err == f"error: m1: {rule}\n"
    assert not (lists / "b.state").exists()
    align("answer m1 b.txt --out m2 --state b.state --normalise email")
    align("finish m2 --state a.state --out users.txt --own-ids own-a.csv")
    align("accept users.txt --state b.state --own-ids own-b.csv")
    assert (lists / "users.txt").read_text() == "ann@x.org\nbob@x.org\n"
    assert (lists / "own-a.csv").read_text() == "user,own\nann@x.org,Ann@X.org\nbob@x.org,Bob@x.org\n"
    assert (lists / "own-b.csv").read_text() == "user,own\nann@x.org,ANN@x.org\nbob@x.org,bob@X.ORG\n"
    assert mode(lists / "own-a.csv") == 0o600
    assert "own-a" not in read_record(lists / "users.txt.alignment.json").model_dump_json()


def test_an_answer_that_matches_a_dummy_is_refused(lists, align):
    align("start a.txt --out m1 --state a.state --both --pad-to 400")
    align("answer m1 b.txt --out m2 --state b.state")
    honest = load_message(lists / "m2")
    # The starter's points in reverse: four of 400 positions match, and 391 are dummies'.
    cheating = Message(honest.header, np.concatenate([honest.starter_points[::-1], honest.answerer_points]))
    (lists / "m3").write_bytes(b"".join(map(bytes, cheating.blocks())))
    for _ in range(2):
        err = align("finish m3 --state a.state --out users.txt", code=1).err
        assert err.startswith("error: m3: a dummy matched, which only we know: the other side did not follow")
        assert not (lists / "users.txt").exists()
    assert "already used another answer" in align("finish m2 --state a.state --out users.txt", code=2).err


@pytest.fixture
def session(lists, align):
    align("start a.txt --out m0 --state a0.state")
    align("start a.txt --out m1 --state a.state --both")
    align("answer m1 b.txt --out m2 --state b.state")
    return lists


REFUSED = {
    "start a.txt --out m1 --state new": "m1 exists already; choose another name or remove it first",
    "start a.txt --out new --state a.state": "a.state exists already, from another session or step",
    "start a.txt --out new --state ./new": "--out and --state are both new: one is sent, the other",
    "answer m1 b.txt --out ./new --state new": "--out and --state are both new: one is sent, the other",
    "start none.txt --out new --state s": "none.txt: no such file",
    "answer m0 b.txt --out new --state s --both": "m0: with this message only the other side learns",
    "start a.txt --out new --state s --pad-to 8": "pad_to must be between the number of ids, 9, and",
    "start a.txt --out new --state s --pad-to 1000000000": "an alignment of 1,000,000,000 ids needs about",
    "start a.txt --out new --state s --processes 0": "Invalid value for '--processes'",
    "start a.txt --out new --state s --normalise email": "a.txt: line 1: 'u0' is not an e-mail address",
    "answer m1 b.txt --out new --state s --normalise phone": "b.txt: line 1: 'u20' ",
    "answer m2 b.txt --out new --state s": "m2: this is an answer: only a message from align start",
    "answer a.txt b.txt --out new --state s": "a.txt: not a pricdr align message",
    "answer m1 b.txt --out new --state s --at-most 8": "m1: the other side shows 9 ids, but --at-most",
    "finish m1 --state a.state --out new": "m1: this is a first message: align finish needs the answer to it",
    "finish m2 --state b.state --out new": "b.state: this session is answered: align finish does not apply",
    "finish m2 --state a.txt --out new": "a.txt: not a pricdr align state file, or a damaged one",
    "finish m2 --state a.state --out new --at-most 15": "m2: the other side shows 16 ids, but --at-most",
    "finish m2 --state none --out new": "none: no such file",
    "finish m2 --state a.state --out m1": "m1 exists already",
    "finish m2 --state a.state --out new --own-ids ./new": "--own-ids is new, which is where the user list",
    "accept . --state b.state": ".: this is a folder",
    "accept a.txt --state a.state": "a.state: this session is started: align accept does not apply to it",
}


def test_one_line_names_the_file_and_the_rule_and_nothing_is_left(session, refused):
    for command, line in REFUSED.items():
        refused("align", *command.split(), says=line)


def test_a_list_that_cannot_be_right_fails_the_check_and_the_right_one_is_accepted_once(session, align, refused):
    align("finish m2 --state a.state --out users.txt")
    for content, line in (
        ("u5\nu6\nu7\nu8\nu99\n", "users.txt: line 5: 'u99' is not one of the ids in the answer"),
        ("u6\nu5\n", "users.txt: line 2: 'u5' is not in ascending order of bytes"),
        ("u5\r\nu6\r\n", "users.txt: the file was changed in transit"),
        ("u5\nu6", "users.txt: the file was changed in transit"),
        ("u5\nu6\nu7\n", "users.txt.alignment.json: common_users is 4 there but 3 here"),
    ):
        (session / "users.txt").write_bytes(content.encode())
        refused("align", "accept", "users.txt", "--state", "b.state", says=f"error: {line}", code=1)
    (session / "users.txt").write_text(COMMON)
    align("accept users.txt --state b.state")
    assert "b.state: this session is accepted" in align("accept users.txt --state b.state", code=2).err


def test_two_steps_at_once(session, align):
    with only_run(session / "a.state"):
        refused = align("finish m2 --state a.state --out users.txt", code=75)
    assert "a.state is in use by another run" in refused.err
    assert "nothing was done" in refused.err


def test_an_interrupted_start_resumes_only_with_the_same_ids(lists, align, monkeypatch):
    def interrupt(contents, key, *, hashed):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(curve, "_blind", interrupt)
        align("start a.txt --out m1 --state a.state --processes 1", code=130)
    assert not (lists / "m1").exists()
    session = state_in(lists / "a.state")["session"]
    for other in ("start b.txt", "start a.txt --pad-to 12", "start a.txt --both"):
        assert "a.state exists already" in align(f"{other} --out m1 --state a.state", code=2).err
    done = align("start a.txt --out m1 --state a.state")
    assert f"resuming session {session}" in done.err
    assert "a.state exists already" in align("start a.txt --out m9 --state a.state", code=2).err


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 19])
def test_killed_at_any_step_the_same_command_resumes_and_the_list_is_right(lists, stride):
    killing = [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(stride)]
    done = subprocess.run(killing, cwd=lists, capture_output=True, text=True, check=True)
    sessions = json.loads(done.stdout)
    assert len(sessions) > 26 / stride
    for number, codes in sessions.items():
        folder = lists / number
        # 2: the run was killed after its very last change, so that nothing was left to do.
        assert set(codes) <= {0, 2}, (number, codes)
        assert (folder / "users.txt").read_text() == COMMON, number
        assert read_record(folder / "users.txt.alignment.json").common_users == 4
        assert (folder / "own.csv").read_text().count("\n") == 5
        states = [state_in(folder / name) for name in ("a.state", "b.state")]
        assert [(state["step"], state["key"]) for state in states] == [("finished", None), ("accepted", None)]
        assert mode(folder / "a.state") == 0o600
    assert sum(2 in codes for codes in sessions.values()) <= len(sessions) / 3
    assert [*sessions.values()][-1] == [0, 0, 0, 0]


@pytest.mark.slow
def test_workers_of_a_killed_run_exit_and_the_next_run_resumes(lists):
    (lists / "many.txt").write_text("".join(f"user{i}\n" for i in range(30_000)))
    command = [sys.executable, "-m", "pricdr", "align", "start", "many.txt", "--out", "m1", "--state", "s"]
    with subprocess.Popen([*command, "--processes", "2"], cwd=lists, stderr=subprocess.DEVNULL) as running:
        workers: list[psutil.Process] = []
        while len(workers) < 2:
            assert running.poll() is None
            time.sleep(0.02)
            workers = psutil.Process(running.pid).children(recursive=True)
        running.kill()
    assert not (lists / "m1").exists()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    again = subprocess.run(command, cwd=lists, capture_output=True, text=True, check=True)
    assert "resuming session" in again.stderr
    assert load_message(lists / "m1").header.starter_ids == 30_000
