"""Functions of other engines that Penstock lacks, and what to write instead.

The names are those of Spark, Flink, ksqlDB, RisingWave, DuckDB and PostgreSQL. A name of this list
is never treated as a misspelling of ours: SIN is not SIGN.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PLACEHOLDERS = ("x", "y", "z")
"""Placeholders for arguments that are missing."""


_ARGUMENT = re.compile(r"(?P<before>(?:\(|, |WHERE )?){(?P<place>\d)}(?P<after>(?:[),]| AS )?)")
"""The place of an argument, and whether it stands between parentheses and commas."""


@dataclass(frozen=True)
class Substitute:
    """The expression or advice to use instead of a function that Penstock lacks.

    Parameters
    ----------
    sql
        An expression, with ``{0}``, ``{1}`` for the arguments; empty if there is none.
    note
        The text after "Write sql"; without ``sql``, the whole sentence, in which ``{stream}`` is
        the stream that the query reads.
    """

    sql: str = ""
    note: str = ""

    def remedy(self, arguments: Sequence[str], stream: str) -> str:
        """The remedy for these arguments, in a query over that stream."""
        if not self.sql:
            note = self.note.replace("{stream}", stream)
            return windows_written(note, ", ".join(arguments))
        return f"Write {self.expression(arguments)}{self.note}."

    def expression(self, arguments: Sequence[str]) -> str:
        """The expression for these arguments.

        >>> Substitute("{0} * {0}").expression(["a + 1"]), Substitute("ABS({0})").expression(["-a"])
        ('(a + 1) * (a + 1)', 'ABS(-a)')
        """
        given = [*arguments, *PLACEHOLDERS[len(arguments) :]]

        def written(match: re.Match[str]) -> str:
            argument = given[int(match["place"])]
            alone = match["before"] and match["after"]
            return f"{match['before']}{argument if alone else _operand(argument)}{match['after']}"

        return _ARGUMENT.sub(written, self.sql)


def substitute(name: str) -> Substitute | None:
    """The substitute for a function that other engines have and Penstock lacks, or None."""
    name = name.upper()
    if name in SUBSTITUTES:
        return SUBSTITUTES[name]
    return next((found for start, found in FAMILIES.items() if name.startswith(start)), None)


_LENGTH = re.compile(
    r"'?(\d+)'?\s*'?((?:MILLISECOND|SECOND|MINUTE|HOUR|DAY|WEEK)S?)\b", re.IGNORECASE
)
_TIME = re.compile(r"DESCRIPTOR\s*\(\s*(\w+)|^\s*(?:\w+\.)?([A-Za-z_]\w*)\s*(?:,|$)", re.IGNORECASE)


def windows_written(remedy: str, text: str) -> str:
    """The remedy with a window clause for ``{window}`` or ``{hop}``, from foreign arguments.

    ``{window}`` has the length before the slide, ``{hop}`` the slide before the length; with one
    length only, the windows tumble.

    >>> windows_written("{hop}", "t, INTERVAL '1' MINUTE, INTERVAL '10' MINUTES")
    '[RANGE 10 MINUTES SLIDE 1 MINUTE WATTR t]'
    >>> windows_written("{window}", "'?'")
    '[RANGE 10 MINUTES SLIDE 10 MINUTES WATTR t]'
    """
    lengths = [f"{number} {unit.upper()}" for number, unit in _LENGTH.findall(text)]
    lengths = lengths or ["10 MINUTES"]
    if "{hop}" in remedy:
        lengths.reverse()
    found = _TIME.search(text)
    time = (found[1] or found[2]) if found else "t"
    clause = f"[RANGE {lengths[0]} SLIDE {lengths[-1]} WATTR {time}]"
    return remedy.replace("{window}", clause).replace("{hop}", clause)


def misspelt(name: str, known: Iterable[str]) -> list[str]:
    """The known names that the name may be a misspelling of, the nearest ones only.

    A slip is a letter too many or missing, a wrong letter, or two exchanged: one in a name of up to
    five letters, two in a longer one. Underscores do not count.

    >>> misspelt("UPER", ["UPPER", "LOWER"]), misspelt("DATETRUNC", ["DATE_TRUNC"])
    (['UPPER'], ['DATE_TRUNC'])
    >>> misspelt("FLOR", ["FLOOR", "LOWER"]), misspelt("POWER", ["LOWER", "ROUND"])
    (['FLOOR'], ['LOWER'])
    """
    plain = name.replace("_", "")
    allowed = 1 if len(plain) <= 5 else 2
    slips = {one: _slips(plain, one.replace("_", ""), allowed) for one in known}
    least = min(slips.values(), default=allowed + 1)
    return [one for one, count in slips.items() if count == least and least <= allowed]


def _slips(one: str, other: str, most: int) -> int:
    """The edit distance of two names, with exchanges; above ``most``, at least that."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, right in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == other[j - 2] and one[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _operand(text: str) -> str:
    """The argument as an operand of any operator: in parentheses where necessary."""
    plain = set(string.ascii_letters + string.digits + "_.\"'")
    whole = set(text) <= plain or (text[:1] == "'" and text[-1:] == "'" and text.count("'") == 2)
    return text if whole or _is_call(text) else f"({text})"


def _is_call(text: str) -> bool:
    """Whether the text is one call: a name, and parentheses that close at its end."""
    name, opened, rest = text.partition("(")
    if not opened or not name.isidentifier() or "'" in rest or '"' in rest:
        return False
    depth = 1
    for place, character in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            return place == len(rest) - 1
    return False


def _each(names: str, sql: str = "", note: str = "") -> dict[str, Substitute]:
    return dict.fromkeys(names.split(), Substitute(sql, note))


BEFORE = "compute it before the push, and push it as a column"
NO_TRIGONOMETRY = f"There are no trigonometric functions; {BEFORE}."
NO_LOGARITHM = f"There are no powers and logarithms but SQRT; {BEFORE}."
NO_SUCH_NUMBER = f"Nothing here computes that; {BEFORE}."
NO_BITS = f"There are no operations on bits; {BEFORE}."
NO_PATTERNS = (
    "There are no regular expressions; LIKE, STARTS_WITH, ENDS_WITH and CONTAINS compare text."
)
NO_NESTING = (
    "There are no arrays, maps, structs or JSON; flatten the data before the push, a column for "
    "each value."
)
NO_LISTS = (
    "There are no lists; select the values themselves, and gather them from the rows that come."
)
NO_QUANTILES = (
    "There are no quantiles; select the values themselves, and compute it from the rows that come."
)
MOST_FREQUENT = "Write GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1 for the most frequent x."
NO_MOMENTS = (
    "There is no such aggregate; select the values themselves, and compute it from the rows that "
    "come."
)
NO_CLOCK = (
    "A query has no clock, so that its rows do not depend on when it runs; push the time as a "
    "column."
)
NO_CHANCE = f"A query's rows do not depend on chance; {BEFORE}."
NO_HASH = f"There are no hash functions; {BEFORE}."
NO_SUCH_TEXT = f"Nothing here does that to text; {BEFORE}."
NO_SUCH_TIME = f"Nothing here does that to times; {BEFORE}."
INTERVALS = "Write INTERVAL 3 DAYS, or another number and unit."
NO_NUMBERING = (
    "Rows have no numbers; in Python, query.drain() gives them with their positions in the input."
)
NO_SESSION = "A query knows neither users nor sessions; leave it out."
ONE_LATEST = (
    "For the last value of each key, write LAST(x) and GROUP BY the key; for the first rows of a "
    "window, ORDER BY and LIMIT."
)
TUPLE_BEFORE = (
    "Join the stream with itself: FROM {stream} [NOW] AS now LEFT JOIN {stream} [ROWS 1] AS before "
    "ON TRUE has every tuple with the one before it."
)
WINDOWS = (
    "Write the window after the stream, FROM {stream} {window}, and select window_start and "
    "window_end."
)
HOPS = WINDOWS.replace("{window}", "{hop}")

SUBSTITUTES: dict[str, Substitute] = {
    # numbers
    **_each(
        "SIN COS TAN COT SEC CSC ASIN ACOS ATAN ATAN2 SINH COSH TANH ASINH ACOSH ATANH SIND COSD "
        "TAND COTD ASIND ACOSD ATAND ATAN2D",
        note=NO_TRIGONOMETRY,
    ),
    **_each("EXP EXPM1 LN LOG LOG2 LOG10 LOG1P CBRT", note=NO_LOGARITHM),
    **_each("GAMMA LGAMMA FACTORIAL", note=NO_SUCH_NUMBER),
    **_each("POWER POW", "{0} * {0}", ", which is the square; there are no other powers but SQRT"),
    "SQUARE": Substitute("{0} * {0}"),
    "HYPOT": Substitute("SQRT({0} * {0} + {1} * {1})"),
    "PI": Substitute("3.141592653589793e0"),
    "E": Substitute("2.718281828459045e0"),
    "RADIANS": Substitute("{0} * 0.017453292519943295e0"),
    "DEGREES": Substitute("{0} * 57.29577951308232e0"),
    **_each("TRUNC TRUNCATE", "CAST({0} AS int64)", ", which cuts toward zero"),
    "SIGNUM": Substitute("SIGN({0})"),
    **_each("FMOD MODULO REMAINDER", "MOD({0}, {1})"),
    "PMOD": Substitute("MOD(MOD({0}, {1}) + {1}, {1})"),
    **_each("DIVIDE TRY_DIVIDE SAFE_DIVIDE", "{0} / {1}", "; a division by zero gives NULL"),
    **_each("ADD TRY_ADD SAFE_ADD PLUS", "{0} + {1}"),
    **_each("SUBTRACT TRY_SUBTRACT SAFE_SUBTRACT MINUS", "{0} - {1}"),
    **_each("MULTIPLY TRY_MULTIPLY SAFE_MULTIPLY", "{0} * {1}"),
    "POSITIVE": Substitute("{0}"),
    "TRY_MOD": Substitute("MOD({0}, {1})"),
    **_each("NEGATIVE NEGATE SAFE_NEGATE", "-{0}"),
    **_each("ISNAN IS_NAN", "{0} = CAST('nan' AS double)"),
    **_each("ISINF IS_INF", "ABS({0}) = CAST('inf' AS double)"),
    **_each("ISFINITE IS_FINITE", "ABS({0}) < CAST('inf' AS double)"),
    "NANVL": Substitute("IF({0} = CAST('nan' AS double), {1}, {0})"),
    "ZEROIFNULL": Substitute("COALESCE({0}, 0)"),
    "NULLIFZERO": Substitute("NULLIF({0}, 0)"),
    **_each("RINT BROUND ROUND_EVEN ROUNDBANKERS", "ROUND({0})", ", which rounds halves up"),
    **_each("GCD LCM WIDTH_BUCKET SCALE MIN_SCALE TRIM_SCALE NEXTAFTER EVEN", note=NO_SUCH_NUMBER),
    **_each("BITAND BITOR BITXOR BITNOT XOR BIT_COUNT GETBIT GET_BIT SET_BIT", note=NO_BITS),
    **_each("BIT_AND BIT_OR BIT_XOR SHIFTLEFT SHIFTRIGHT LSHIFT RSHIFT", note=NO_BITS),
    **_each("RAND RANDOM RANDN UNIFORM SETSEED RAND_INTEGER RANDCANONICAL", note=NO_CHANCE),
    **_each("UUID GEN_RANDOM_UUID UUID7 NEWID GENERATE_UUID", note=NO_CHANCE),
    # conditions
    **_each("IIF IFF", "IF({0}, {1}, {2})"),
    "NVL2": Substitute("IF({0} IS NULL, {2}, {1})"),
    "ISNULL": Substitute("{0} IS NULL", ", or COALESCE(x, y) for a value in its place"),
    **_each("ISNOTNULL NOTNULL", "{0} IS NOT NULL"),
    **_each("DECODE SWITCH CHOOSE ELT", "CASE {0} WHEN 1 THEN 'one' ELSE 'other' END"),
    **_each("EQUAL_NULL EQUALS_NULL", "{0} = {1} OR ({0} IS NULL AND {1} IS NULL)"),
    # casts
    **_each("TRY_CAST SAFE_CAST CONVERT TRY_CONVERT", "CAST({0} AS int64)"),
    **_each("TO_NUMBER TRY_TO_NUMBER TO_DOUBLE", "CAST({0} AS double)"),
    **_each("INT INTEGER TO_INT32", "CAST({0} AS int32)"),
    **_each("BIGINT TO_INT64", "CAST({0} AS int64)"),
    **_each("DOUBLE FLOAT8", "CAST({0} AS double)"),
    **_each("STRING VARCHAR TEXT TO_VARCHAR STR", "CAST({0} AS string)"),
    **_each("BOOLEAN TO_BOOLEAN", "CAST({0} AS boolean)"),
    **_each("BINARY TO_BINARY ENCODE", "CAST({0} AS binary)"),
    # text
    **_each("UCASE TO_UPPER", "UPPER({0})"),
    **_each("LCASE TO_LOWER", "LOWER({0})"),
    **_each("LEN CHARACTER_LENGTH STRLEN", "LENGTH({0})"),
    **_each("OCTET_LENGTH BYTE_LENGTH", "LENGTH(CAST({0} AS binary))"),
    "BIT_LENGTH": Substitute("8 * LENGTH(CAST({0} AS binary))"),
    **_each("MID SUBSTRING_GRAPHEME", "SUBSTRING({0}, {1})"),
    "BTRIM": Substitute("TRIM({0})", ", which removes spaces"),
    **_each("PREFIX", "STARTS_WITH({0}, {1})"),
    "SUFFIX": Substitute("ENDS_WITH({0}, {1})"),
    **_each("INSTR STRPOS", "CONTAINS({0}, {1})", "; the place itself is not computed"),
    **_each(
        "LOCATE CHARINDEX POSITION", "CONTAINS({1}, {0})", "; the place itself is not computed"
    ),
    "LPAD": Substitute("RIGHT('00000000' || {0}, 8)", ", with the padding and the width you need"),
    "RPAD": Substitute("LEFT({0} || '        ', 8)", ", with the padding and the width you need"),
    "CONCAT_WS": Substitute("{1} || {0} || {2}", "; it is NULL if one of them is"),
    **_each(
        "CHAR FORMAT_NUMBER FIND_IN_SET INITCAP REVERSE REPEAT SPACE TRANSLATE OVERLAY SOUNDEX "
        "LEVENSHTEIN EDITDIST3 DAMERAU_LEVENSHTEIN ASCII CHR ORD UNICODE FORMAT PRINTF "
        "FORMAT_STRING STRIP_ACCENTS BASE64 "
        "UNBASE64 FROM_BASE64 TO_BASE64 HEX UNHEX BIN CONV QUOTE QUOTE_LITERAL SPLIT SPLIT_PART "
        "SUBSTRING_INDEX SPLIT_INDEX STRING_SPLIT STRING_TO_ARRAY STR_TO_MAP PARSE_URL URL_DECODE "
        "URL_ENCODE NORMALIZE MASK FIELD INSERT",
        note=NO_SUCH_TEXT,
    ),
    **_each("RLIKE REGEXP REGEX GLOB SIMILAR_TO ILIKE LIKE_REGEX", note=NO_PATTERNS),
    # times
    **_each(
        "NOW CURRENT_TIMESTAMP CURRENT_DATE CURRENT_TIME LOCALTIME LOCALTIMESTAMP GETDATE SYSDATE "
        "SYSTIMESTAMP TODAY CURDATE CURTIME PROCTIME PROCESSING_TIME ROWTIME CLOCK_TIMESTAMP "
        "TRANSACTION_TIMESTAMP STATEMENT_TIMESTAMP UTC_TIMESTAMP CURRENT_ROW_TIMESTAMP "
        "CURRENT_WATERMARK GET_CURRENT_TIMESTAMP MZ_NOW CURRENT_TIMEZONE",
        note=NO_CLOCK,
    ),
    "QUARTER": Substitute("(MONTH({0}) + 2) DIV 3"),
    **_each("DAYOFMONTH DAY_OF_MONTH", "DAY({0})"),
    **_each("DAY_OF_WEEK WEEKDAY DOW", "DAYOFWEEK({0})", ", where 1 is Sunday"),
    **_each("ISODOW DAYOFWEEK_ISO", "(DAYOFWEEK({0}) + 5) % 7 + 1", ", where 1 is Monday"),
    **_each("WEEK WEEKOFYEAR ISOWEEK YEARWEEK", "DATE_TRUNC('week', {0})", ", a week's Monday"),
    **_each(
        "DAYOFYEAR DAY_OF_YEAR DOY",
        "CAST(DATE_TRUNC('day', {0}) - DATE_TRUNC('year', {0}) AS int64) DIV 86400 + 1",
    ),
    "LAST_DAY": Substitute(
        "CAST(DATE_TRUNC('month', {0}) + INTERVAL 1 MONTH - INTERVAL 1 DAY AS date)"
    ),
    **_each("DAYNAME MONTHNAME", "CASE DAYOFWEEK({0}) WHEN 1 THEN 'Sunday' ELSE 'other' END"),
    **_each("DATE_PART DATEPART", "YEAR({1})", ", or MONTH, DAY, HOUR, MINUTE, SECOND"),
    **_each("TRUNC_DATE TIMESTAMP_TRUNC", "DATE_TRUNC('day', {0})"),
    **_each(
        "EPOCH UNIX_TIMESTAMP TO_UNIX_TIMESTAMP UNIX_SECONDS TO_UNIXTIME STRINGTOTIMESTAMP",
        "CAST({0} AS int64)",
        ", the seconds since 1970",
    ),
    **_each(
        "EPOCH_MS UNIX_MILLIS TO_EPOCH_MS", "CAST(CAST({0} AS decimal(18, 3)) * 1000 AS int64)"
    ),
    **_each(
        "FROM_UNIXTIME TIMESTAMP_SECONDS TO_TIMESTAMP TRY_TO_TIMESTAMP TO_TIMESTAMP_LTZ "
        "TO_TIMESTAMP_NTZ TIMESTAMP DATETIME STRPTIME TRY_STRPTIME PARSE_TIMESTAMP STR_TO_DATE "
        "PARSE_DATETIME",
        "CAST({0} AS timestamp)",
        "; a number counts seconds since 1970, a text is as '2024-01-31 12:00:00'",
    ),
    **_each(
        "TIMESTAMP_MILLIS FROM_UNIXTIME_MILLIS MAKE_TIMESTAMP_MS", "CAST({0} / 1000 AS timestamp)"
    ),
    "TIMESTAMP_MICROS": Substitute("CAST({0} / 1000000 AS timestamp)"),
    **_each("DATE TO_DATE TRY_TO_DATE PARSE_DATE", "CAST({0} AS date)"),
    **_each(
        "DATE_FORMAT FORMAT_DATE FORMAT_TIMESTAMP FORMAT_DATETIME TO_CHAR STRFTIME "
        "TIMESTAMPTOSTRING",
        "CAST({0} AS string)",
        "; there are no patterns, but SUBSTRING takes a piece of it",
    ),
    **_each(
        "DATE_ADD DATEADD TIMESTAMPADD TIMESTAMP_ADD DATE_SUB DATESUB TIMESTAMP_SUB ADD_DAYS "
        "ADD_MONTHS",
        note="Write t + INTERVAL 3 DAYS, or t + INTERVAL 1 DAY * x for x days; other units are "
        "MINUTES, HOURS, MONTHS and so on.",
    ),
    **_each(
        "DATEDIFF DATE_DIFF TIMESTAMPDIFF TIMESTAMP_DIFF AGE MONTHS_BETWEEN",
        note="Write CAST(t - u AS int64) for the seconds between two times, and DIV 86400 after it "
        "for the days.",
    ),
    **_each(
        "DATE_BIN TIME_BUCKET TIME_SLICE",
        "DATE_TRUNC('minute', {1})",
        ", or aggregate by windows, FROM R [RANGE 5 MINUTES SLIDE 5 MINUTES WATTR t]",
    ),
    **_each(
        "TO_UTC_TIMESTAMP FROM_UTC_TIMESTAMP CONVERT_TIMEZONE CONVERT_TZ TIMEZONE",
        "CAST({0} AS timestamp(6, 'UTC'))",
        ", with the zone you need",
    ),
    **_each("MAKE_DATE MAKE_TIMESTAMP MAKE_INTERVAL NEXT_DAY", note=NO_SUCH_TIME),
    **_each("YEARS MONTHS DAYS HOURS TO_YEARS TO_MONTHS TO_WEEKS TO_DAYS TO_HOURS", note=INTERVALS),
    **_each("TO_MINUTES TO_SECONDS TO_MILLISECONDS TO_MICROSECONDS", note=INTERVALS),
    **_each("MILLISECOND MICROSECOND NANOSECOND MILLENNIUM CENTURY DECADE ERA", note=NO_SUCH_TIME),
    # aggregates
    "MEAN": Substitute("AVG({0})"),
    **_each("TOTAL TRY_SUM FSUM SUMKAHAN KAHAN_SUM SUM_NO_OVERFLOW", "SUM({0})"),
    **_each("TRY_AVG FAVG", "AVG({0})"),
    **_each("WAVG WEIGHTED_AVG", "SUM({0} * {1}) / SUM({1})"),
    "SEM": Substitute("STDDEV_POP({0}) / SQRT(COUNT({0}))"),
    "SUM_DISTINCT": Substitute(
        note="Group by the value in a derived stream first, and sum its rows."
    ),
    **_each("VAR VARP", "VAR_SAMP({0})", ", or VAR_POP"),
    **_each("STD STDEV STDEVP", "STDDEV_SAMP({0})", ", or STDDEV_POP"),
    **_each("COUNT_IF COUNTIF", "COUNT(*) FILTER (WHERE {0})"),
    **_each("SUM_IF SUMIF", "SUM({0}) FILTER (WHERE {1})"),
    **_each("AVG_IF AVGIF", "AVG({0}) FILTER (WHERE {1})"),
    **_each(
        "COUNT_DISTINCT APPROX_COUNT_DISTINCT APPROX_DISTINCT NDV UNIQ HLL_COUNT_DISTINCT "
        "COUNTDISTINCT",
        "COUNT(DISTINCT {0})",
    ),
    **_each("ANY_VALUE ARBITRARY FIRST_VALUE EARLIEST_BY_OFFSET", "FIRST({0})"),
    **_each("LAST_VALUE LATEST_BY_OFFSET", "LAST({0})"),
    **_each("BOOL_AND LOGICAL_AND EVERY ALL", "MIN({0})", "; FALSE is smaller than TRUE"),
    **_each("BOOL_OR LOGICAL_OR SOME ANY", "MAX({0})", "; FALSE is smaller than TRUE"),
    **_each(
        "MAX_BY ARG_MAX ARGMAX",
        "LAST({0})",
        ", which goes by the time attribute of the window; by another column, write "
        "WATTR and that one",
    ),
    **_each(
        "MIN_BY ARG_MIN ARGMIN",
        "FIRST({0})",
        ", which goes by the time attribute of the window; by another column, write "
        "WATTR and that one",
    ),
    "COVAR_POP": Substitute("AVG({0} * {1}) - AVG({0}) * AVG({1})"),
    "COVAR_SAMP": Substitute(
        "(SUM({0} * {1}) - SUM({0}) * AVG({1})) / (COUNT(*) - 1)", ", without NULLs in them"
    ),
    "CORR": Substitute(
        "(AVG({0} * {1}) - AVG({0}) * AVG({1})) / (STDDEV_POP({0}) * STDDEV_POP({1}))"
    ),
    **_each(
        "MEDIAN PERCENTILE QUANTILE MAD APPROX_PERCENTILE APPROX_QUANTILE APPROX_MEDIAN "
        "PERCENTILE_CONT PERCENTILE_DISC PERCENTILE_APPROX QUANTILE_CONT QUANTILE_DISC "
        "RESERVOIR_QUANTILE TDIGEST",
        note=NO_QUANTILES,
    ),
    "MODE": Substitute(note=MOST_FREQUENT),
    **_each("KURTOSIS KURTOSIS_POP SKEWNESS ENTROPY PRODUCT GEOMEAN", note=NO_MOMENTS),
    **_each(
        "ARRAY_AGG COLLECT_LIST COLLECT_SET LIST STRING_AGG LISTAGG GROUP_CONCAT JSON_AGG "
        "JSONB_AGG JSON_OBJECT_AGG OBJECT_AGG MAP_AGG HISTOGRAM COLLECT MAKE_SET",
        note=NO_LISTS,
    ),
    **_each(
        "TOPK TOPKDISTINCT TOP_K APPROX_TOP_K MAX_N MIN_N",
        note="Write ORDER BY and LIMIT; over windows that slide they hold for each window.",
    ),
    **_each(
        "GROUPING GROUPING_ID ROLLUP CUBE",
        note="Write a query for each set of groups, with UNION ALL between them.",
    ),
    # rows beside each other
    **_each("LAG LEAD", note=TUPLE_BEFORE),
    **_each("ROW_NUMBER RANK DENSE_RANK NTILE PERCENT_RANK CUME_DIST NTH_VALUE", note=ONE_LATEST),
    **_each("MONOTONICALLY_INCREASING_ID ROWNUM ROWID ROWOFFSET", note=NO_NUMBERING),
    # windows
    **_each(
        "TUMBLE WINDOW TUMBLE_START TUMBLE_END TUMBLE_ROWTIME TUMBLE_PROCTIME WINDOW_TIME "
        "WINDOW_START WINDOW_END WINDOWSTART WINDOWEND",
        note=WINDOWS,
    ),
    **_each(
        "HOP CUMULATE HOP_START HOP_END HOP_ROWTIME HOP_PROCTIME",
        note=HOPS,
    ),
    **_each(
        "SESSION SESSION_WINDOW SESSION_START SESSION_END SESSION_ROWTIME",
        note="There are no session windows. " + WINDOWS,
    ),
    # nested data, and the rest
    **_each(
        "UNNEST EXPLODE EXPLODE_OUTER POSEXPLODE INLINE STRUCT ROW ARRAY MAP CARDINALITY SIZE "
        "FLATTEN ELEMENT_AT ELEMENT NAMED_STRUCT STRUCT_PACK ROW_TO_JSON TRANSFORM FILTER "
        "FROM_JSON TO_JSON GET_JSON_OBJECT EXTRACTJSONFIELD GENERATE_SERIES SEQUENCE RANGE STACK "
        "ARRAYS_ZIP SORT_ARRAY AGGREGATE REDUCE FORALL",
        note=NO_NESTING,
    ),
    **_each("HASH MD5 CRC32 XXHASH64 SIPHASH DIGEST", note=NO_HASH),
    **_each("TYPEOF PG_TYPEOF", note="DESCRIBE and the name of the stream show the types."),
    **_each(
        "VERSION CURRENT_USER USER SESSION_USER CURRENT_DATABASE CURRENT_SCHEMA CURRENT_CATALOG "
        "INPUT_FILE_NAME",
        note=NO_SESSION,
    ),
}
"""By name. A name here takes precedence over its prefix in :data:`FAMILIES`."""

FAMILIES: dict[str, Substitute] = {
    **_each("REGEXP_ REGEX_", note=NO_PATTERNS),
    **_each("ARRAY_ LIST_ MAP_ JSON_ JSONB_ STRUCT_ XPATH VARIANT_", note=NO_NESTING),
    **_each("SHA MURMUR", note=NO_HASH),
    **_each("BIT_ BITMAP_", note=NO_BITS),
    **_each("APPROX_ PERCENTILE_ QUANTILE_", note=NO_QUANTILES),
    **_each("REGR_", note=NO_MOMENTS),
}
"""By prefix of the name."""

CLOCKS = frozenset(name for name, found in SUBSTITUTES.items() if found.note == NO_CLOCK)
"""Functions that SQL also writes without parentheses, like columns."""
