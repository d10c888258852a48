-- Query Q3 of Oge et al. 2013: the trades of UBS in the last ten minutes, every minute.
-- A window is told by its end: there is one row for each, and none for every tuple.
SELECT window_end AS Time, COUNT(*) AS Number
FROM Trades [RANGE 600 SECONDS SLIDE 60 SECONDS WATTR Time SLACK 60 SECONDS]
WHERE Symbol = 'UBSN';
