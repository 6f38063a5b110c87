"""When something happens again: cron, ISO 8601 cycles, time zones."""

import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from jobexec.exceptions import InvalidJob, InvalidSchedule
from jobexec.recurrence import parse, zone_named
from jobexec.recurrence.cycle import with_start

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def texts(times):
    return [f"{time:%m-%d %H:%M}" for time in times]


def local(times, zone):
    return [f"{time.astimezone(ZoneInfo(zone)):%d %H:%M}" for time in times]


class TestCron:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("0 3 * * *", ["03-02 03:00", "03-03 03:00"]),
            ("*/20 * * * *", ["03-01 12:20", "03-01 12:40"]),
            ("0 12 * * *", ["03-02 12:00", "03-03 12:00"]),
            ("30 0 3 * * *", ["03-02 03:00", "03-03 03:00"]),
            ("0 0 12 ? * MON-FRI", ["03-02 12:00", "03-03 12:00"]),
            ("0 0 12 1 * ?", ["04-01 12:00", "05-01 12:00"]),
            ("0 9 * * 7", ["03-08 09:00", "03-15 09:00"]),
            ("0 9 * * sun", ["03-08 09:00", "03-15 09:00"]),
            ("0 9 L * *", ["03-31 09:00", "04-30 09:00"]),
            ("0 9 * * MON#2", ["03-09 09:00", "04-13 09:00"]),
            ("@hourly", ["03-01 13:00", "03-01 14:00"]),
            ("@daily", ["03-02 00:00", "03-03 00:00"]),
            ("@midnight", ["03-02 00:00", "03-03 00:00"]),
            ("@weekly", ["03-08 00:00", "03-15 00:00"]),
            ("@Monthly", ["04-01 00:00", "05-01 00:00"]),
            ("@yearly", ["01-01 00:00", "01-01 00:00"]),
            ("@annually", ["01-01 00:00", "01-01 00:00"]),
            ("  0   3 * * * ", ["03-02 03:00", "03-03 03:00"]),
        ],
    )
    def test_the_next_times(self, expression, expected):
        assert texts(parse(expression, "UTC").upcoming(NOW, 2)) == expected

    def test_seconds_come_first_where_there_are_six_fields(self):
        assert parse("*/30 0 3 * * *", "UTC").upcoming(NOW, 2) == [at("2026-03-02T03:00:00"), at("2026-03-02T03:00:30")]

    def test_it_is_in_a_time_zone_and_answers_in_utc(self):
        time = parse("0 3 * * *", BERLIN).next_after(NOW)
        assert (time, time.tzinfo) == (at("2026-03-02T02:00"), UTC)

    def test_without_a_time_zone_it_is_that_of_the_settings(self, settings):
        settings.TIME_ZONE = "Asia/Tokyo"
        assert parse("0 3 * * *").next_after(NOW) == at("2026-03-01T18:00")
        assert zone_named() == "Asia/Tokyo"

    @pytest.mark.parametrize("seconds", ["", "0 "])
    @pytest.mark.parametrize(
        ("zone", "since", "expected"),
        [
            (BERLIN, "2026-03-28T00:00", ["28 02:30", "29 03:00", "30 02:30"]),
            (BERLIN, "2026-10-24T00:00", ["24 02:30", "25 02:30", "26 02:30"]),
            (NEW_YORK, "2026-03-07T05:00", ["07 02:30", "08 03:00", "09 02:30"]),
            (NEW_YORK, "2026-10-31T05:00", ["31 02:30", "01 02:30", "02 02:30"]),
            (LORD_HOWE, "2026-10-02T13:30", ["03 02:30", "04 02:30", "05 02:30"]),
            (LORD_HOWE, "2026-04-03T13:30", ["04 02:30", "05 02:30", "06 02:30"]),
        ],
    )
    def test_a_fixed_time_comes_once_a_day_when_the_clocks_change(self, zone, since, expected, seconds):
        assert local(parse(f"{seconds}30 2 * * *", zone).upcoming(at(since), 3), zone) == expected

    def test_a_time_in_the_half_hour_that_lord_howe_leaves_out_or_shows_twice(self):
        daily = parse("15 2 * * *", LORD_HOWE)
        assert local(daily.upcoming(at("2026-10-02T13:30"), 3), LORD_HOWE) == ["03 02:15", "04 02:30", "05 02:15"]
        twice = parse("45 1 * * *", LORD_HOWE).upcoming(at("2026-04-03T13:30"), 3)
        assert local(twice, LORD_HOWE) == ["04 01:45", "05 01:45", "06 01:45"]
        assert twice[1] == at("2026-04-04T14:45"), "the first of the two"

    @pytest.mark.parametrize("minutes", range(-90, 91, 15))
    def test_from_any_moment_around_a_change_the_same_times_follow(self, minutes):
        for zone, change in ((BERLIN, "2026-10-25T01:00"), (BERLIN, "2026-03-29T01:00")):
            daily, moment = parse("30 2 * * *", zone), at(change) + timedelta(minutes=minutes)
            all_times = daily.upcoming(at(change) - timedelta(days=1), 4)
            assert daily.upcoming(moment, 2) == [time for time in all_times if time > moment][:2]

    def test_what_leaves_the_hour_open_goes_by_the_time_that_passes(self):
        spring = parse("0 * * * *", BERLIN).upcoming(at("2026-03-29T00:30"), 2)
        autumn = parse("0 * * * *", BERLIN).upcoming(at("2026-10-25T00:00"), 2)
        assert (local(spring, BERLIN), local(autumn, BERLIN)) == (["29 03:00", "29 04:00"], ["25 02:00", "25 03:00"])

    @pytest.mark.parametrize("expression", ["*/7 * * * *", "30 * * * *", "0 */2 * * *", "*/30 2 * * *", "* 1 * * *"])
    @pytest.mark.parametrize(
        ("zone", "since"),
        [
            (BERLIN, "2026-03-28T22:00"),
            (BERLIN, "2026-10-24T22:00"),
            (NEW_YORK, "2026-11-01T02:00"),
            (LORD_HOWE, "2026-10-03T12:00"),
            (LORD_HOWE, "2026-04-04T12:00"),
            ("America/Sao_Paulo", "2018-02-17T22:00"),
        ],
    )
    def test_and_is_what_the_clocks_show_minute_by_minute(self, expression, zone, since):
        cron = CronSim(expression, datetime(2026, 1, 1))
        minutes = [at(since) + timedelta(minutes=minute) for minute in range(1, 481)]
        shown = [(minute, minute.astimezone(ZoneInfo(zone))) for minute in minutes]
        expected = [minute for minute, wall in shown if wall.minute in cron.minutes and wall.hour in cron.hours]
        assert parse(expression, zone).times_between(at(since), minutes[-1], 999) == expected

    def test_many_times_in_a_gap_become_one(self):
        every_minute_of_an_hour = parse("0-59 2 * * *", BERLIN)
        assert local(every_minute_of_an_hour.upcoming(at("2026-03-28T23:00"), 2), BERLIN) == ["29 03:00", "30 02:00"]

    def test_a_day_that_samoa_left_out(self):
        times = parse("0 12 * * *", "Pacific/Apia").upcoming(at("2011-12-29T00:00"), 3)
        assert local(times, "Pacific/Apia") == ["29 12:00", "31 00:00", "31 12:00"]

    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("61 * * * *", "the field minute is wrong: expected numbers from 0 to 59"),
            ("0 24 * * *", "the field hour is wrong: expected numbers from 0 to 23"),
            ("0 0 30 2 *", "the field day-of-month is wrong"),
            ("0 0 31 4,6,9,11 *", "the field day-of-month is wrong"),
            ("0 0 * 13 *", "the field month is wrong"),
            ("0 0 * * 8", "the field day-of-week is wrong"),
            ("x 0 0 * * *", "the field second is wrong"),
            ("*/0 * * * *", "the field minute is wrong"),
            ("5-1 * * * *", "the field minute is wrong"),
            ("? * * * *", "the field minute is wrong"),
            ("* * * *", "expected five fields"),
            ("0 0 12 * * ? 2026", "got 7"),
            ("@fortnightly", "expected one of @hourly, @daily"),
            ("every day", "expected five fields"),
            ("R/1H", "'1H' is not a duration"),
        ],
    )
    def test_what_is_wrong_is_said(self, expression, said):
        with pytest.raises(InvalidSchedule) as error:
            parse(expression, "UTC")
        text = str(error.value)
        assert text.startswith(f"expression: {expression!r}: ")
        assert said in text
        assert text.endswith("for example 0 3 * * * (at 03:00 every day) or R/PT1H (every hour).")
        assert error.value.field == "expression"
        assert isinstance(error.value, InvalidJob)

    def test_what_never_fires_is_refused(self):
        with pytest.raises(InvalidSchedule, match="it never fires"):
            parse("0 0 */29 2 MON#5", "UTC")

    @pytest.mark.parametrize("expression", [None, 5, "", "*" * 256, b"* * * * *"])
    def test_what_is_no_text_or_too_long_is_refused(self, expression):
        with pytest.raises(InvalidSchedule, match="expression: expected a string of 1 to 255 characters"):
            parse(expression, "UTC")


class TestZones:
    @pytest.mark.parametrize("name", ["Europe/Berln", "Europe", "", "../etc/passwd", "a\x00b", 5, "x" * 300])
    def test_an_unknown_zone_is_said(self, name):
        with pytest.raises(InvalidSchedule, match="timezone: expected the name of a time zone") as error:
            parse("0 3 * * *", name)
        assert error.value.field == "timezone"

    def test_a_name_that_is_like_it_is_offered(self):
        with pytest.raises(InvalidSchedule, match="Did you mean 'Europe/Berlin'"):
            parse("0 3 * * *", "Europe/Berln")


class TestCycles:
    @pytest.mark.parametrize(
        ("expression", "expected"),
        [
            ("R/PT1H", ["03-01 13:00", "03-01 14:00", "03-01 15:00"]),
            ("R2/PT10M", ["03-01 12:10", "03-01 12:20"]),
            ("R/P1D", ["03-02 12:00", "03-03 12:00", "03-04 12:00"]),
            ("R/2026-03-01T13:00:00Z/PT1H", ["03-01 13:00", "03-01 14:00", "03-01 15:00"]),
            ("R3/2026-03-01T11:00:00Z/PT1H", ["03-01 13:00"]),
            ("R/2025-12-31T09:00Z/P1M", ["03-31 09:00", "04-30 09:00", "05-31 09:00"]),
            ("R/2024-02-29T09:00Z/P1Y", ["02-28 09:00", "02-29 09:00", "02-28 09:00"]),
            ("R/PT1H/2026-03-01T14:30:00Z", ["03-01 12:30", "03-01 13:30", "03-01 14:30"]),
            ("R2/PT1H/2026-03-01T15:00:00Z", ["03-01 14:00", "03-01 15:00"]),
            ("R/P1M/2026-05-31T09:00:00Z", ["03-31 09:00", "04-30 09:00", "05-31 09:00"]),
            ("R/2026-03-01T13:00Z/2026-03-01T13:45Z", ["03-01 13:00", "03-01 13:45", "03-01 14:30"]),
            ("R2/2026-03-01T13:00Z/2026-03-01T13:45Z", ["03-01 13:00", "03-01 13:45"]),
            ("R/2026-03-02/P1D", ["03-02 00:00", "03-03 00:00", "03-04 00:00"]),
            ("R5/2020-01-01T00:00Z/PT1H", []),
        ],
    )
    def test_the_next_times(self, expression, expected):
        assert texts(parse(expression, "UTC", NOW).upcoming(NOW, 3)) == expected

    def test_the_first_is_a_step_after_the_anchor_in_whole_seconds(self):
        anchor = NOW + timedelta(seconds=5.75)
        assert parse("R/PT1H", "UTC", anchor).next_after(anchor) == NOW + timedelta(hours=1, seconds=5)

    def test_months_go_by_the_calendar_of_the_zone_and_days_by_hours(self):
        monthly = parse("R/2026-03-15T03:00/P1M", BERLIN).upcoming(NOW, 2)
        daily = parse("R/2026-03-28T03:00/P1D", BERLIN).upcoming(NOW, 2)
        assert local(monthly, BERLIN) == ["15 03:00", "15 03:00"]
        assert local(daily, BERLIN) == ["28 03:00", "29 04:00"]

    def test_the_31st_is_not_forgotten_after_a_short_month(self):
        times = parse("R/2026-01-31T09:00Z/P1M", "UTC").upcoming(at("2026-01-30T00:00"), 4)
        assert [time.day for time in times] == [31, 28, 31, 30]

    @pytest.mark.parametrize(
        ("expression", "said"),
        [
            ("R/PT0S", "PT0S is shorter than a second"),
            ("R/PT0.5S", "PT0.5S is shorter than a second"),
            ("R/PT1.5S", "PT1.5S has fractions of a second"),
            ("R/-PT1H", "is negative"),
            ("R/P200Y", "longer than a century"),
            ("R/P", "'P' is not an ISO 8601 duration"),
            ("R0/PT1H", "the number after R must be from 1 to 2147483647"),
            ("R99999999999/PT1H", "the number after R must be from 1"),
            ("R/2026-01-01T00:00Z", "is not a duration"),
            ("R/2026-13-01T00:00Z/PT1H", "is neither a duration nor a time such as"),
            ("R/2026-01-02T00:00Z/2026-01-01T00:00Z", "its end must be later than its start"),
            ("R/2026-01-01T00:00Z/PT1H/2027-01-01T00:00Z", "expected R/<duration>"),
            ("R-1/PT1H", "expected R/<duration>"),
            ("R/", "expected R/<duration>"),
        ],
    )
    def test_what_is_wrong_is_said(self, expression, said):
        with pytest.raises(InvalidSchedule) as error:
            parse(expression, "UTC")
        assert str(error.value).startswith(f"expression: {expression!r}: ")
        assert said in str(error.value)

    def test_a_second_for_a_thousand_years_is_found_at_once(self):
        began = time.monotonic()
        cycle = parse("R/1026-01-01T00:00:00Z/PT1S", "UTC")
        assert cycle.next_after(NOW) == NOW + timedelta(seconds=1)
        assert cycle.last_between(at("1100-01-01T00:00"), NOW) == NOW
        assert time.monotonic() - began < 30  # each one after the other would take days

    def test_the_calendar_ends(self):
        assert parse("R/PT1H", "UTC", NOW).next_after(datetime.max.replace(tzinfo=UTC)) is None
        assert parse("R/9998-12-31T00:00Z/P1Y", "UTC").upcoming(at("9998-01-01T00:00"), 9) == [
            at("9998-12-31T00:00"),
            at("9999-12-31T00:00"),
        ]
        assert parse("0 0 1 1 *", BERLIN).next_after(at("9999-12-31T12:00")) is None

    def test_one_that_is_counted_gets_its_start_written_in(self):
        assert with_start("R5/PT10M", NOW) == "R5/2026-03-01T12:10:00Z/PT10M"
        for text in ("R/PT10M", "R5/2026-03-01T12:10:00Z/PT10M", "R5/PT1H/2026-03-02T00:00Z", "0 3 * * *"):
            assert with_start(text, NOW) == text
        written = parse(with_start("R3/P1M", NOW), "UTC")
        assert written.upcoming(NOW, 9) == parse("R3/P1M", "UTC", NOW).upcoming(NOW, 9)


ZONES = st.sampled_from(["UTC", BERLIN, NEW_YORK, LORD_HOWE, "Asia/Kathmandu", "Pacific/Apia"])
MOMENTS = st.datetimes(datetime(2005, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))
EXPRESSIONS = st.one_of(
    st.sampled_from(["30 2 * * *", "*/7 * * * *", "0 */3 * * *", "15,45 1-3 * * *", "0 0 L * *", "*/20 30 2 * * *"]),
    st.builds("R/PT{}S".format, st.integers(1, 10**6)),
    st.builds("R{}/P{}D".format, st.integers(1, 10**4), st.integers(1, 40)),
    st.builds("R/P{}M{}D".format, st.integers(1, 30), st.integers(0, 40)),
    st.builds("R/PT{}M/2030-06-30T02:30".format, st.integers(1, 10**4)),
    st.builds("R/2004-10-31T01:30/P{}M".format, st.integers(1, 14)),
)


@pytest.mark.gate
@settings(max_examples=100)
@given(EXPRESSIONS, ZONES, MOMENTS, st.timedeltas(timedelta(0), timedelta(days=400)))
def test_times_rise_are_whole_seconds_and_follow_from_any_moment_between(expression, zone, moment, later):
    recurrence = parse(expression, zone, datetime(2004, 12, 31, 23, 59, 59, tzinfo=UTC))
    times = recurrence.upcoming(moment, 8)
    assert all(one < other for one, other in zip([moment, *times], times, strict=False))
    assert not any(time.microsecond for time in times)
    for one, other in zip([moment, *times], times, strict=False):
        middle = one + (other - one) / 2
        assert recurrence.next_after(middle) == other
        assert recurrence.next_after(other - timedelta(microseconds=1)) == other
    until = moment + later
    last = recurrence.last_between(moment, until)
    if last is None:
        assert not times or times[0] > until
    else:
        assert moment < last <= until
        following = recurrence.next_after(last)
        assert following is None or following > until
        assert recurrence.next_after(last - timedelta(microseconds=1)) == last


@settings(max_examples=40)
@given(st.integers(0, 59), st.integers(0, 23), ZONES, MOMENTS)
def test_a_fixed_time_comes_on_every_day_of_the_calendar_once(minute, hour, zone, moment):
    daily = parse(f"{minute} {hour} * * *", zone)
    days = [time.astimezone(ZoneInfo(zone)).date() for time in daily.upcoming(moment, 40)]
    if zone != "Pacific/Apia":  # it has left out a day
        assert days == [days[0] + timedelta(days=number) for number in range(40)]
