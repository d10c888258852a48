-- Minutes in which a symbol was traded five times as much as in a usual one of the last ten:
-- a join of two streams of aggregates. Ten minutes are full from 09:10 on (32400 is nine).
CREATE STREAM LastMinute AS
SELECT window_end AS Time, Symbol, SUM(Volume) AS Shares
FROM Trades [RANGE 60 SECONDS SLIDE 60 SECONDS WATTR Time SLACK 60 SECONDS]
GROUP BY Symbol;

CREATE STREAM TenMinutes AS
SELECT window_end AS Time, Symbol, SUM(Volume) AS Shares
FROM Trades [RANGE 600 SECONDS SLIDE 60 SECONDS START AT 32400 WATTR Time SLACK 60 SECONDS]
GROUP BY Symbol;

SELECT m.Time, m.Symbol, m.Shares, t.Shares AS InTenMinutes
FROM LastMinute [RANGE 60 SECONDS WATTR Time] AS m
JOIN TenMinutes [RANGE 60 SECONDS WATTR Time] AS t
  ON m.Symbol = t.Symbol AND m.Time = t.Time AND 10 * m.Shares > 5 * t.Shares;
