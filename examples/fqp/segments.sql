-- Najafi 2019 §4.4: two groups of customers. Height and Weight come later than the query.
CREATE STREAM Customer_Stream (Customer_ID INT, Age INT, Height INT, Weight INT);
SELECT * FROM Customer_Stream WHERE Age > 25;
SELECT * FROM Customer_Stream WHERE Age <= 25;
