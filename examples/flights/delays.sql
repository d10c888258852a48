-- Long delays in poor visibility: each departure with the weather at its airport in the hour before
-- it, and the plane. One join of three streams; planes are known before the first departure.
SELECT f.t AS departure, f.origin, f.carrier, f.flight, f.dep_delay AS delay,
       w.visib AS miles, p.manufacturer, p.year AS built
FROM Flights [RANGE 1 HOUR WATTR t SLACK 0] AS f
JOIN Weather [RANGE 1 HOUR WATTR t SLACK 0] AS w ON f.origin = w.origin AND w.t <= f.t
JOIN Planes [UNBOUNDED WATTR t] AS p ON f.tailnum = p.tailnum
WHERE w.visib < 1 AND f.dep_delay >= 60
