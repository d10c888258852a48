-- Najafi 2019, Fig. 4.2.1: what customers older than 25 have bought, over 1,536 tuples, and the
-- women among them, over 2,048. The windows are those of the filtered streams, which have names:
-- a WHERE beside a window would not change which tuples the window holds.
CREATE STREAM Customer (Customer_ID INT, Age INT, Gender STRING, Product_ID INT);
CREATE STREAM Product (Product_ID INT, Price INT);
CREATE STREAM Adults AS SELECT * FROM Customer WHERE Age > 25;
SELECT c.Customer_ID, p.Product_ID, p.Price
FROM Adults [ROWS 1536] AS c JOIN Product [ROWS 1536] AS p ON c.Product_ID = p.Product_ID;
CREATE STREAM Women AS SELECT * FROM Adults WHERE Gender = 'female';
SELECT c.Customer_ID, p.Product_ID, p.Price
FROM Women [ROWS 2048] AS c JOIN Product [ROWS 2048] AS p ON c.Product_ID = p.Product_ID;
