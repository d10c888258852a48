-- Trades inside a quote of the last ten seconds, on either side of it in time.
CREATE STREAM trades (ts timestamp, symbol string, price decimal(10, 2), volume int64);
CREATE STREAM quotes (ts timestamp, symbol string, bid decimal(10, 2), ask decimal(10, 2));

SELECT t.ts, t.symbol, t.price, q.bid, q.ask
FROM trades [RANGE 10 SECONDS WATTR ts] AS t
JOIN quotes [RANGE 10 SECONDS WATTR ts] AS q
  ON t.symbol = q.symbol AND t.price BETWEEN q.bid AND q.ask;
