-- The three symbols of which most shares changed hands in the last ten minutes, every minute.
SELECT window_end AS Time, Symbol, SUM(Volume) AS Shares
FROM Trades [RANGE 600 SECONDS SLIDE 60 SECONDS WATTR Time SLACK 60 SECONDS]
GROUP BY Symbol
ORDER BY SUM(Volume) DESC, Symbol
LIMIT 3;
