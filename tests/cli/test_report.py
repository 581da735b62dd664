"""``pricdr report``: a page from a results folder, and refusals in one line."""

from tests.report import made_up


def test_a_page_is_written_and_never_overwritten(here, pricdr):
    made_up.frontier(here / "results", {"guided, ε = 4": 0.15})
    done = pricdr("report", "results", "--out", "report.html")
    assert done.code == 0
    assert (
        done.out
        == f"report.html: 30 runs of 1 experiments, 0 missing, {len((here / 'report.html').read_text()) / 1e6:.1f} MB\n"
    )
    assert "50\xa0%" in (here / "report.html").read_text(encoding="utf-8")
    again = pricdr("report", "results", "--out", "report.html")
    assert again.code == 2
    assert "exists already" in again.err


def test_what_is_no_results_folder_and_a_damaged_result_are_refused_in_one_line(here, refused):
    refused("report", "nowhere", "--out", "report.html", says="nowhere is not a results folder: no such folder")
    made_up.frontier(here / "results", {"guided, ε = 4": 0.15})
    with (here / "results" / "frontier_toy.jsonl").open("a") as file:
        file.write('{"spec": "\\u001b[31m"}\n')
    assert "\x1b" not in refused(
        "report", "results", "--out", "r.html", says="frontier_toy.jsonl, line 31: not a result"
    )


def test_a_release_is_verified_before_it_is_drawn(here, pricdr, ratings, publish):
    made_up.frontier(here / "results", {"guided, ε = 4": 0.15})
    assert publish(ratings).code == 0
    assert pricdr("report", "results", "--out", "report.html", "--release", "release").code == 0
    shown = (here / "report.html").read_text(encoding="utf-8")
    assert "A verified release: 3 users x 8 numbers" in shown
    assert "An example, not a release" not in shown
    (here / "release" / "README.md").write_text("changed")
    changed = pricdr("report", "results", "--out", "another.html", "--release", "release")
    assert changed.code == 1
    assert not (here / "another.html").exists()


def test_a_release_must_be_signed_by_the_key_that_is_asked_for(here, pricdr, ratings, publish):
    made_up.frontier(here / "results", {"guided, ε = 4": 0.15})
    assert publish(ratings).code == 0
    assert pricdr("keygen", "--out", "key").code == 0
    done = pricdr("report", "results", "--out", "report.html", "--release", "release", "--public-key", "key.pub")
    assert done.code == 1
    assert not (here / "report.html").exists()
    # The key may be set for every command (PRICDR_PUBLIC_KEY), and an example has no signature.
    assert pricdr("report", "results", "--out", "report.html", "--public-key", "key.pub").code == 0
