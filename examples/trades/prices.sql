-- What a share cost, by five minutes: the first price and the last by the time of the trades,
-- in whatever order they came, and everything between.
SELECT window_start AS Since, Symbol, FIRST(Price) AS Opening, MIN(Price) AS Low,
  MAX(Price) AS High, LAST(Price) AS Closing, ROUND(AVG(Price), 2) AS Mean,
  ROUND(STDDEV_SAMP(Price), 2) AS Spread
FROM Trades [RANGE 300 SECONDS SLIDE 300 SECONDS WATTR Time SLACK 60 SECONDS]
GROUP BY Symbol
HAVING COUNT(*) >= 5;
