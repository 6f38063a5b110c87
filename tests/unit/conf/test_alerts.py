"""Who is told of dead letters, as DEAD_LETTER_ALERTS says it; where the site is."""

from datetime import timedelta

import pytest

from jobexec import conf
from jobexec.conf.alerts import alerts, site_url

SECRET = "whsec_c2hoLCB0aGlzIGlzIGEgc2VjcmV0"


def test_targets():
    made = alerts(
        {
            "hook": {"url": "https://hooks.example/T0/x?y=1", "secret": SECRET, "interval": "PT5M"},
            "team": {"mail": ["a@shop.example", "b@shop.example"], "handlers": ["shop.*"], "tenants": ["", "big"]},
            "one": {"mail": "a@shop.example", "categories": ["mail"]},
            "local": {"url": "http://localhost:8000/alerts", "secret": "sixteen letters."},
        }
    )
    assert (made["hook"].secret, made["hook"].interval) == (b"shh, this is a secret", timedelta(minutes=5))
    assert (made["hook"].host, made["hook"].mail) == ("hooks.example", ())
    assert (made["team"].mail, made["team"].interval) == (("a@shop.example", "b@shop.example"), timedelta(hours=1))
    assert (made["team"].handlers, made["team"].tenants, made["one"].mail) == (
        ("shop.*",),
        ("", "big"),
        made["team"].mail[:1],
    )
    assert made["local"].secret == b"sixteen letters."


def test_no_text_shows_what_is_secret():
    made = alerts({"hook": {"url": "https://hooks.example/T0/x", "secret": SECRET}})
    assert "T0" not in repr(made) and "shh" not in repr(made)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ([], "a dict of names to dicts with 'url' or 'mail', or None"),
        ({"": {"mail": "a@b.example"}}, "a dict whose keys are names"),
        ({"x": {}}, "'x' is a dict with either 'url' or 'mail'"),
        ({"x": {"url": "https://a.example", "mail": "a@b.example"}}, "'x' is a dict with either 'url' or 'mail'"),
        ({"x": {"mail": "a@b.example", "secret": "s" * 20}}, "'secret' comes with a 'url'"),
        ({"x": {"mail": "a@b.example", "format": "slack"}}, "'format' comes with a 'url'"),
        ({"x": {"url": "https://a.example", "format": "teams"}}, "'format' is one of 'jobexec', 'slack'"),
        ({"x": {"url": "https://a.example", "format": ["slack"]}}, "'format' is one of 'jobexec', 'slack'"),
        ({"x": {"mail": []}}, "'mail' is one or more mail addresses"),
        ({"x": {"mail": "a@b.example\nBcc: c@d.example"}}, "'mail' is one or more mail addresses"),
        ({"x": {"mail": "a@b.example", "to": 1}}, "a dict with keys out of 'url', 'mail'"),
        ({"x": {"url": "https://a.example", "secret": "short"}}, "'secret' is a string of at least 16 characters"),
        ({"x": {"url": "https://a.example", "secret": "whsec_not base64!"}}, "'whsec_' and base64"),
        ({"x": {"mail": "a@b.example", "tenants": "big"}}, "'tenants' is a list of tenant ids"),
        ({"x": {"mail": "a@b.example", "interval": -1}}, "'interval' is a timedelta"),
        *(
            ({"x": {"url": url}}, "'url' is an https URL")
            for url in (
                "http://a.example",
                "https://",
                "ftp://a.example",
                "https://u:p@a.example",
                "https://a.example/#x",
                "https://a.example:port",
                "https://a.example/ x",
                "file:///etc/passwd",
                5,
            )
        ),
    ],
)
def test_what_is_wrong_is_named(raw, said):
    (problem,) = conf.problems({"DEAD_LETTER_ALERTS": raw})
    assert problem.setting == "JOBEXEC['DEAD_LETTER_ALERTS']"
    assert said in problem.message


def test_a_problem_shows_no_secret():
    (problem,) = conf.problems({"DEAD_LETTER_ALERTS": {"x": {"url": "http://a.example/T0", "secret": SECRET}}})
    assert "T0" not in str(problem) and SECRET not in str(problem)


def test_the_site():
    assert (site_url(None), site_url("https://shop.example/")) == (None, "https://shop.example")
    for wrong in ("shop.example", "https://", "ftp://x", "https://x/?y", 5):
        with pytest.raises(ValueError, match="a URL such as"):
            site_url(wrong)
